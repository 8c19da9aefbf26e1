"""A keeper and a server's line to it, in one process, over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from rift.drivers.boxes.protocol import BoxDriver
from rift.drivers.forge.protocol import Forge
from rift.drivers.line import BadFrame, Line, connect
from rift.drivers.nix.protocol import Builder
from rift.keeper.checks import Bounds
from rift.keeper.desk import Desk


class Keeper:
    """A desk that serves, and the other end of its line, `theirs`, for a `Line` or for bytes of a test's own."""

    def __init__(self, bounds: Bounds, drivers: Mapping[str, BoxDriver | Forge | Builder]) -> None:
        self._bounds = bounds
        self._drivers = drivers
        self.ours, self.theirs = socket.socketpair()
        self.line: Line | None = None
        self.ended: asyncio.Task[str] | None = None
        self.words: list[str] = []

    async def serve(self) -> None:
        """Answer; `ended` then tells why it ended: the bad frame, or nothing when the server hung up."""
        reader, writer = await connect(self.ours)
        self.desk = Desk(reader, writer, self._bounds, self._drivers, said=self.words.append)
        self.ended = asyncio.create_task(self._served())

    async def open(self, said: Callable[[str], None] | None = None) -> Line:
        """Answer, and be called over a line."""
        await self.serve()
        reader, writer = await connect(self.theirs)
        self.line = Line(reader, writer, said)
        return self.line

    async def close(self) -> None:
        """Hang up, and wait until the desk has noticed."""
        if self.line is not None:
            await self.line.close()
        self.theirs.close()
        if self.ended is not None:
            done, _ = await asyncio.wait([self.ended], timeout=20)
            assert done, "the desk serves on"

    async def _served(self) -> str:
        try:
            await self.desk.serve()
        except BadFrame as error:
            return str(error)
        return ""
