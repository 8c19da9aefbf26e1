"""Whether this process can take calls: facts in, one word for each check out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WORKER_WITHIN = 20.0
"""A worker that was not heard for so many seconds is away (they say something every 3 s)."""
WAITING_MOST = 24
"""With so many statements waiting for a connection, a further call would only wait too."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. `step` is None where the database did not answer in time."""

    step: str | None
    wanted_step: str
    listening: bool
    worker_age: float | None
    waiting: int
    stopping: bool


def decide_ready(facts: Facts) -> Mapping[str, bool]:
    """Each check by name, and whether it holds: ready is who holds all. In the order in which one would look."""
    return {
        "serving": not facts.stopping,
        "database": facts.step == facts.wanted_step,
        "signals": facts.listening,
        "worker": facts.worker_age is not None and facts.worker_age <= WORKER_WITHIN,
        "room": facts.waiting < WAITING_MOST,
    }
