"""An invitation, and a person on the waitlist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rift.people.model import Role


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
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """Somebody on the waitlist."""

    email: str
    name: str
    organization: str
    note: str
    joined_at: datetime
    teams: tuple[str, ...]
    """The names of the teams that have invited them."""
