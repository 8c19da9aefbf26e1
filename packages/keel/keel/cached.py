"""Something that many ask and that is read once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from keel.clock import Clock

FRESH_SECONDS = 1.0

Value = TypeVar("Value")


class Cached(Generic[Value]):
    """What `read` gives, for `seconds`; whoever asks meanwhile waits for the one reading that goes on."""

    def __init__(self, clock: Clock, read: Callable[[], Awaitable[Value]], seconds: float = FRESH_SECONDS) -> None:
        self._clock = clock
        self._read = read
        self._seconds = seconds
        self._until = float("-inf")
        self._value: Value | None = None
        self._reading: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """The value, at most so old."""
        if self._value is not None and self._clock.monotonic() < self._until:
            return self._value
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._fetch())
        return await asyncio.shield(self._reading)  # one who hangs up takes it from nobody else

    async def _fetch(self) -> Value:
        self._value = await self._read()
        self._until = self._clock.monotonic() + self._seconds
        return self._value
