"""The sessions that are open: found by their ids, bounded in number, ended when nobody speaks to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from keel.ids import Ids, SystemIds
from rift.drivers.forge.protocol import FEED_BYTES, ForgeError

SESSIONS_MOST = 64
"""Open at once, of all boxes together."""
IDLE_SECONDS = 60.0
DRAIN_SECONDS = 5.0
"""How long one `drain` waits for bytes."""


class Session(Protocol):
    """One request to one of git's services, under way."""

    async def feed(self, data: bytes, *, last: bool) -> None:
        """Take a part of the request; returns when it was taken."""

    async def drain(self) -> bytes | None:
        """The next part of the answer, waiting for it; None at the end. May be cancelled and asked again."""

    async def close(self) -> None:
        """End what works for it, and remove what it left."""


class Told:
    """An answer that was made at once, without a request of its own."""

    def __init__(self, answer: bytes) -> None:
        self._left = answer

    async def feed(self, data: bytes, *, last: bool) -> None:
        """There is nothing to ask."""

    async def drain(self) -> bytes | None:
        told, self._left = self._left[:FEED_BYTES], self._left[FEED_BYTES:]
        return told or None

    async def close(self) -> None:
        """There is nothing to end."""


class Sessions:
    """By id. Ids are 128 random bits, so that knowing one is having been given it."""

    def __init__(
        self, *, most: int = SESSIONS_MOST, idle_seconds: float = IDLE_SECONDS, ids: Ids | None = None
    ) -> None:
        self._ids = ids or SystemIds()
        self._most = most
        self._idle = idle_seconds
        self._open: dict[str, tuple[Session, Path]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._busy: dict[str, int] = {}
        self._of: Counter[Path] = Counter()  # by mirror, those that are coming too
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def place(self, mirror: Path) -> Iterator[None]:
        """Hold a place for one of the mirror's that is being opened. Raises ForgeError when there is none.

        A repository has at most as many as are left: its boxes alone cannot keep those of another out.
        """
        left, own = self._most - self._of.total(), self._of[mirror]
        if left <= 0:
            raise ForgeError(f"{self._most} fetches and pushes of boxes run already; try again in a minute.")
        if own >= left:
            raise ForgeError(f"{own} fetches and pushes of this repository's boxes run already; try again in a minute.")
        self._of[mirror] += 1
        try:
            yield
        finally:
            self._leave(mirror)

    def _leave(self, mirror: Path) -> None:
        self._of[mirror] -= 1
        if not self._of[mirror]:
            del self._of[mirror]

    def add(self, mirror: Path, session: Session) -> str:
        """Keep it, and return its id."""
        number = self._ids.hex(32)
        self._open[number] = session, mirror
        self._of[mirror] += 1
        self._rest(number)
        return number

    async def feed(self, number: str, data: bytes, *, last: bool) -> None:
        """Raises ForgeError when there is no such session."""
        session = self._begin(number)
        try:
            await session.feed(data, last=last)
        finally:
            self._rest(number)

    async def drain(self, number: str) -> bytes | None:
        """As the protocol has it. Raises ForgeError when there is no such session."""
        session = self._begin(number)
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                return await session.drain()
        except TimeoutError:
            return b""
        finally:
            self._rest(number)

    async def close(self, number: str) -> None:
        """End it, if it is there."""
        found = self._open.pop(number, None)
        self._busy.pop(number, None)
        if (timer := self._timers.pop(number, None)) is not None:
            timer.cancel()
        if found is not None:
            session, mirror = found
            try:
                await session.close()
            finally:
                self._leave(mirror)

    def _begin(self, number: str) -> Session:
        if number not in self._open:
            raise ForgeError("There is no such session with git; it may have ended by itself.")
        self._busy[number] = self._busy.get(number, 0) + 1
        if (timer := self._timers.pop(number, None)) is not None:
            timer.cancel()
        return self._open[number][0]

    def _rest(self, number: str) -> None:
        """Nobody speaks to it at this moment: it ends when that goes on."""
        if number not in self._open:
            return
        self._busy[number] = max(0, self._busy.get(number, 0) - 1)
        if self._busy[number] == 0:
            self._timers[number] = asyncio.get_running_loop().call_later(self._idle, self._forget, number)

    def _forget(self, number: str) -> None:
        task = asyncio.create_task(self._quietly(number), name="a forgotten session")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _quietly(self, number: str) -> None:
        with suppress(ForgeError, OSError):
            await self.close(number)
