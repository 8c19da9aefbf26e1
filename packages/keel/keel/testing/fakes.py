"""Time and chance that do as a test says. Both pass the conformance suites of the real ones."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta

from keel.ids import ALPHABET

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class FakeClock:
    """A `keel.clock.Clock` that stands still until it is told to move."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, by: float | timedelta) -> datetime:
        """Move both clocks on by seconds or a timedelta; returns the new instant. ValueError when it would go back.

        Whatever is more than nothing moves them by a microsecond at least, so that who waits for an instant gets there.
        """
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if not step and not isinstance(by, timedelta) and by > 0:
            step = timedelta.resolution
        if step < timedelta(0):
            raise ValueError("a clock does not go back; use `set` for a wall clock that jumps")
        self._now += step
        self._monotonic += step.total_seconds()
        return self._now

    def set(self, now: datetime) -> None:
        """Let the wall clock jump, also back, as an operator or NTP does; the monotonic one does not notice."""
        self._now = now


class FakeIds:
    """A `keel.ids.Ids` that gives the same distinct values in the same order to everybody with the same seed."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._given = 0

    def token(self) -> str:
        return base64.urlsafe_b64encode(self._bytes(32)).rstrip(b"=").decode()

    def short(self, length: int = 8) -> str:
        return "".join(ALPHABET[byte % len(ALPHABET)] for byte in self._bytes(length))

    def hex(self, length: int = 24) -> str:
        return self._bytes((length + 1) // 2).hex()[:length]

    def _bytes(self, count: int) -> bytes:
        """The next `count` bytes of this seed's stream."""
        self._given += 1
        return hashlib.shake_256(f"{self._seed}/{self._given}".encode()).digest(count)
