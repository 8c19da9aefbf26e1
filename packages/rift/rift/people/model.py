"""Who there is, what they belong to, and who calls."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rift.names import PERSONAL

Role = Literal["member", "admin"]

OPERATOR = "whoever runs this Rift"
"""What a refusal calls the person who has a terminal on the server."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The person behind a token, at the moment of the call."""

    user: str
    email: str
    admin: bool
    """Whether they are the platform admin."""
    token: str
    """The token's id (never its secret)."""
    client: str
    """The name the client declared when it was authorized."""
    how: Literal["mcp", "web"] = "mcp"
    """`web`: the person themselves, signed in with a browser; `token` is then their session's id."""

    @property
    def label(self) -> str:
        """What a task shows as its holder: `mcp:` and the client's name (contract: Tasks, The holder)."""
        return "web" if self.how == "web" else f"mcp:{self.client}"


@dataclass(frozen=True, slots=True)
class User:
    """A person with an account."""

    id: str
    email: str
    """As it was given; compared without regard to case."""
    admin: bool
    """Whether they are the platform admin."""
    created_at: datetime
    disabled_at: datetime | None = None
    """Since when a platform admin has put them out: no token, session or link of theirs is good."""


@dataclass(frozen=True, slots=True)
class Membership:
    """One person's place in one organization."""

    org: str
    """The organization's id."""
    name: str
    """What its members call it in an `org` argument: `personal`, or the team's name."""
    role: Role

    @property
    def personal(self) -> bool:
        """Whether it is the person's own organization."""
        return self.name == PERSONAL

    @property
    def admin(self) -> bool:
        """Whether they may change it: members read, admins change."""
        return self.role == "admin"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an organization, as the others see them."""

    org: str
    email: str
    role: Role


@dataclass(frozen=True, slots=True)
class Person:
    """One member of one organization, for those who look after it."""

    user: str
    """The user's id."""
    email: str
    role: Role
    joined_at: datetime
    disabled: bool
    """Whether a platform admin has put them out: they are a member, and can do nothing."""


@dataclass(frozen=True, slots=True)
class Team:
    """A team, for whoever runs the server."""

    id: str
    name: str
    created_at: datetime
    members: int
    admins: int
    """How many of the members may change it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What an MCP client signs in with. The secret is shown once and only its SHA-256 is kept."""

    id: str
    user_id: str
    email: str
    client: str
    created_at: datetime
    used_at: datetime | None
    """At most a minute behind its last call."""
    revoked_at: datetime | None
