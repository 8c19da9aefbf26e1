"""The one place of this package that reads the time, draws by chance and waits."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Protocol


class World(Protocol):
    """Time, chance and waiting: what a client takes from outside. Tests give one of their own."""

    def now(self) -> float:
        """Seconds since 1970 by the machine's clock: for the claims of assertions and tokens alone."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back and never stands: how long a token is good is measured on it."""

    def chance(self) -> float:
        """From 0 to just below 1."""

    def nonce(self) -> str:
        """43 characters that nobody can guess and that never come twice."""

    async def sleep(self, seconds: float) -> None:
        """Wait, letting other tasks run."""

    def pause(self, seconds: float) -> None:
        """Wait in this thread."""


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's other clock stands still while the machine sleeps, and a token does not."""


class SystemWorld:
    """The machine's own clocks and generator."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    def chance(self) -> float:
        return secrets.randbelow(1 << 30) / (1 << 30)

    def nonce(self) -> str:
        return secrets.token_urlsafe(32)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
