"""What is decided about letters. Pure: facts in, a decision out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from rift.mail.model import SHAPES, Kind

AT_MOST: Mapping[Kind, tuple[int, timedelta]] = {
    "sign_in": (5, timedelta(hours=1)),
    "team_invitation": (10, timedelta(days=1)),
    "account_invitation": (10, timedelta(days=1)),
    "feedback": (20, timedelta(hours=1)),
}
"""So many letters of a kind go to one address in so long, whoever asks for them."""


def decide_facts(kind: Kind, facts: Mapping[str, object]) -> None:
    """Raises ValueError where a letter's facts are not those of its kind: who posts it is wrong, and no person."""
    shape = SHAPES[kind]
    wrong = {name for name, is_a in shape.items() if not isinstance(facts.get(name), is_a)} | (set(facts) - set(shape))
    if wrong:
        raise ValueError(f"a letter of kind {kind} has the facts {sorted(shape)}; wrong: {sorted(wrong)}")
