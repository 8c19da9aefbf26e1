"""How often each of many may do something: buckets that fill steadily, each kept as the one instant when it is full.

Pure arithmetic (the generic cell rate algorithm), and a table of it that never grows beyond its bound.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`most` at once, and from then on as many a `seconds`."""

    most: int
    seconds: float

    @property
    def each(self) -> float:
        """Seconds until one more may be taken."""
        return self.seconds / self.most


def take(full_at: float, now: float, rate: Rate) -> tuple[float, float]:
    """Take one from the bucket that is full at an instant: when it is full then, and how long to wait for this one.

    Whoever has to wait, more than 0 seconds, took nothing.
    """
    then = max(full_at, now) + rate.each
    wait = then - now - rate.seconds
    return (then, 0.0) if wait <= rate.each * 1e-6 else (full_at, wait)


class Buckets:
    """A bucket for each key, at most `size`: the one that was not used for longest makes room.

    One that is forgotten is full, so a crowd of ever new keys is not held by this; those within it are.
    """

    def __init__(self, rate: Rate, size: int = 16_384) -> None:
        self._rate = rate
        self._size = size
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, now: float) -> float:
        """Take one of a key's; how many seconds it has to wait instead, 0 where it took one. `now` never goes back."""
        full_at, wait = take(self._full_at.pop(key, now), now, self._rate)
        self._full_at[key] = full_at
        if len(self._full_at) > self._size:
            self._full_at.popitem(last=False)
        return wait
