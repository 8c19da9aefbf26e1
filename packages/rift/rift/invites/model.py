"""An invitation, and a person on the waitlist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rift.people.model import Role

Outcome = Literal["accepted", "declined", "withdrawn"]
"""How an invitation ended; one that nobody answered in time is just not open any more."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """An open invitation of an address: to a team, or to make an account."""

    id: str
    org: str | None
    """The team's id; None invites to make an account and no more."""
    team: str | None
    """The team's name."""
    email: str
    role: Role
    invited_by: str | None
    """The address of who invited; None for a command on the server."""
    created_at: datetime
    """When it was made, or made anew the last time."""
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Invited:
    """What an invitation did."""

    invitation: Invitation
    renewed: bool
    """Whether this address was invited before: the invitation is good for longer now, with this role."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody on the waitlist."""

    email: str
    name: str
    organization: str
    note: str
    joined_at: datetime
    """No two joined at the same instant."""
    teams: tuple[str, ...]
    """The names of the teams that have invited them."""


@dataclass(frozen=True, slots=True)
class Waitlist:
    """A part of the waitlist, oldest first."""

    people: tuple[Waiting, ...]
    more_since: datetime | None
    """When the first one after these joined; None when there is nobody after them."""
