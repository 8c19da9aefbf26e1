"""One deadline, passed down a call: how long it may still wait is asked of it, never counted again."""

from __future__ import annotations

from dataclasses import dataclass, field

from keel.clock import Clock


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant on the monotonic clock, `seconds` after it was made."""

    clock: Clock
    seconds: float
    started: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", self.clock.monotonic())

    def left(self) -> float:
        """Seconds that remain; 0.0 when it has passed."""
        return max(0.0, self.started + self.seconds - self.clock.monotonic())

    def sooner(self, seconds: float) -> Deadline:
        """A deadline `seconds` from now, or this one where this one comes first."""
        return Deadline(self.clock, min(seconds, self.left()))
