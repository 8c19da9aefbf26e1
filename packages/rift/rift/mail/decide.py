"""What is decided about letters. Pure: facts in, a decision out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from rift.mail.model import SHAPES, Kind, Letter

AT_MOST: Mapping[Kind, tuple[int, timedelta]] = {
    "sign_in": (5, timedelta(hours=1)),
    "team_invitation": (10, timedelta(days=1)),
    "account_invitation": (10, timedelta(days=1)),
    "feedback": (20, timedelta(hours=1)),
}
"""So many letters of a kind go to one address in so long, whoever asks for them."""

TRIED_FOR = timedelta(days=2)
"""How long a letter is tried, from when it was written or an admin wanted it tried again."""
WAITS = (
    timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1), timedelta(hours=3),
    timedelta(hours=6),
)  # fmt: skip
"""How long it waits after each try that failed; the last stands for all that follow."""
LANES = 2
CLAIMED_FOR = timedelta(minutes=2)
"""A letter that somebody is sending is left alone for so long: longer than a driver may take. One whose sender was
killed is sent again then, and may arrive twice."""


def decide_again(letter: Letter, now: datetime) -> datetime | None:
    """When a letter that has just failed is tried again; None where that would be too late for it."""
    at = now + WAITS[min(letter.tries, len(WAITS)) - 1]
    return at if at <= letter.until else None


def lane(id: str) -> str:
    """Which of the few letters that are sent at once this is: a mail server that hangs holds up no work but letters."""
    return f"mail:{sum(id.encode()) % LANES}"


def decide_facts(kind: Kind, facts: Mapping[str, object]) -> None:
    """Raises ValueError where a letter's facts are not those of its kind: who posts it is wrong, and no person."""
    shape = SHAPES[kind]
    wrong = {name for name, is_a in shape.items() if not isinstance(facts.get(name), is_a)} | (set(facts) - set(shape))
    if wrong:
        raise ValueError(f"a letter of kind {kind} has the facts {sorted(shape)}; wrong: {sorted(wrong)}")
