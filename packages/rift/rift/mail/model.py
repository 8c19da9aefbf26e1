"""A letter, by what it says; and a one-time link: who has it is the person of its address, once and for a short while.

A letter is kept as its kind and its facts and never as its text, since the text may hold a link: that is minted at the
moment when the letter is sent or shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Kind = Literal["sign_in", "team_invitation", "account_invitation", "feedback", "trial"]
"""Every kind of letter there is."""

SHAPES: Mapping[Kind, Mapping[str, type]] = {
    "sign_in": {"next": str},
    "team_invitation": {"invitation": str, "team": str, "inviter": str, "role": str},
    "account_invitation": {"invitation": str, "inviter": str},
    "feedback": {"sender": str, "items": int, "path": str},
    "trial": {},
}
"""The facts of each kind: exactly these, and none of them a secret. `next` and `path` are paths of our pages."""

State = Literal["waits", "again", "sent", "failed"]
"""Not tried yet, to be tried again, sent, given up."""

WITH_LINK: frozenset[Kind] = frozenset({"sign_in", "team_invitation", "account_invitation"})
"""The kinds whose text holds a one-time link."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter: what it says, to whom, and how far it has come."""

    id: str
    kind: Kind
    email: str
    facts: Mapping[str, object]
    """As `SHAPES` has them."""
    created_at: datetime
    until: datetime
    """Until when it is tried."""
    next_at: datetime | None
    """When it is to be sent, for the first time or again; None once it was, or was given up."""
    tries: int
    failure: str | None
    """Why the last try failed."""
    sent_at: datetime | None

    @property
    def with_link(self) -> bool:
        """Whether its text holds a one-time link."""
        return self.kind in WITH_LINK

    @property
    def state(self) -> State:
        """How far it has come. One that is being sent at this moment waits, too."""
        if self.sent_at is not None:
            return "sent"
        if self.next_at is None:
            return "failed"
        return "waits" if self.failure is None else "again"


@dataclass(frozen=True, slots=True)
class Link:
    """A link for an address. Its secret is in the letter alone; what is kept is its digest."""

    email: str
    invitation: str | None
    """The invitation that using it accepts; without one it signs in and no more."""
    next: str
    """The path of the page to go on to; empty for the first page."""
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None


@dataclass(frozen=True, slots=True)
class Letters:
    """A page of letters, newest first; whether there are older ones; how many wait, and were given up, in all."""

    letters: Sequence[Letter]
    more: bool
    waiting: int
    failed: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A letter as its reader gets it, with a one-time link of its own."""

    letter: Letter
    subject: str
    text: str = field(repr=False)
    html: str = field(repr=False)
    link: str = field(repr=False)
    """The address that it asks to open; empty where it asks for nothing."""
