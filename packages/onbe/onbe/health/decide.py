"""Whether this process can take requests: facts in, one word for each check out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

WAITING_MOST = 24
"""With so many statements waiting for a connection, a further request would only wait too."""
SEALS_MISSED = 3
SEAL_LEEWAY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found. `step` is None where the database did not answer in time."""

    step: str | None
    wanted_step: str
    keys: int
    """How many public keys are published."""
    unsealed: timedelta | None
    """How long ago the oldest record was written that is not sealed yet; None for none."""
    seal_every: timedelta
    waiting: int


def decide_ready(facts: Facts) -> Mapping[str, bool]:
    """Each check by name, and whether it holds: ready is who holds all. In the order in which one would look."""
    late = facts.unsealed is not None and facts.unsealed > SEALS_MISSED * facts.seal_every + SEAL_LEEWAY
    return {
        "database": facts.step is not None,
        "schema": facts.step == facts.wanted_step,
        "signing_key": facts.keys > 0,
        "sealing": facts.step is not None and not late,
        "room": facts.waiting < WAITING_MOST,
    }
