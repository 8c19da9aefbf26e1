"""How much of what callers send is held at once: a bound for each token and one for all, in bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from keel.sizes import MIB

EACH_BYTES = 48 * MIB
"""Four bodies of the largest size."""
ALL_BYTES = 144 * MIB
WAIT_SECONDS = 10.0
"""How long a body waits for room before it is read."""
EACH_WAITS = 8
ALL_WAIT = 64
"""How many bodies may wait: one that waits holds what the socket has delivered already."""


class Budget:
    """Bytes in flight, by caller. A body that finds no room waits a little: its sender is slowed, not refused."""

    def __init__(
        self, *, each: int = EACH_BYTES, all: int = ALL_BYTES, seconds: float = WAIT_SECONDS, waits: int = EACH_WAITS
    ) -> None:
        self.each, self.all = each, all
        self._seconds, self._waits = seconds, waits
        self._held: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def hold(self, caller: str, size: int) -> AsyncIterator[int | None]:
        """Hold room for a body while the block lasts. Yields None, or the bound in bytes that left none."""
        met = self._met(caller, size)
        if met is not None and self._waiting[caller] < self._waits and self._waiting.total() < ALL_WAIT:
            met = await self._wait(caller, size)
        if met is not None:
            yield met
            return
        self._held[caller] += size
        try:
            yield None
        finally:
            self._held[caller] -= size
            if not self._held[caller]:
                del self._held[caller]
            if self._waiting:
                async with self._freed:
                    self._freed.notify_all()

    async def _wait(self, caller: str, size: int) -> int | None:
        self._waiting[caller] += 1
        try:
            async with asyncio.timeout(self._seconds), self._freed:
                await self._freed.wait_for(lambda: self._met(caller, size) is None)
        except TimeoutError:
            return self._met(caller, size)
        finally:
            self._waiting[caller] -= 1
            if not self._waiting[caller]:
                del self._waiting[caller]
        return None

    def _met(self, caller: str, size: int) -> int | None:
        """The bound that leaves no room for so much more; something alone always has room."""
        held = self._held.get(caller, 0)
        if held and held + size > self.each:
            return self.each
        return self.all if self._held and self._held.total() + size > self.all else None
