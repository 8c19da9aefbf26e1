"""An origin that keeps whoever reads it waiting."""

from __future__ import annotations

import asyncio


class Silent:
    """A git server that takes callers and says nothing to them."""

    async def __aenter__(self) -> tuple[str, list[asyncio.StreamReader]]:
        self.callers: list[asyncio.StreamReader] = []
        self.writers: list[asyncio.StreamWriter] = []

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\0")  # the request
            self.callers.append(reader)
            self.writers.append(writer)

        self.server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        return f"git://127.0.0.1:{port}/x", self.callers

    async def __aexit__(self, *_: object) -> None:
        for writer in self.writers:
            writer.close()
        self.server.close()
        await self.server.wait_closed()
