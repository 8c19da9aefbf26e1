"""A pool as it stands: what is wanted, and the boxes that nobody has claimed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class WarmBox:
    """An unclaimed box: `starting` or `running`."""

    id: str
    commit: str
    state: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the watched ref asks for: so many warm boxes at this head; and when a box of the head last failed, and first
    of those that failed one after the other.
    """

    warm: int
    head: str | None
    failed_at: datetime | None = None
    ready: bool = True
    """Whether the head's environment is there; until then none is made."""
    failing_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """The next step: how many boxes to make at the head, and which to drain."""

    make: int
    drain: tuple[str, ...]
