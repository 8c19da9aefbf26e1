"""Whose GitHub account a person has connected, and a login that has begun."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal


def about(user: str) -> str:
    """What a person's sealed tokens are about."""
    return f"github user {user}"


def about_code(user: str) -> str:
    """What the sealed device code of a person's login is about."""
    return f"github login {user}"


@dataclass(frozen=True, slots=True)
class Login:
    """A person's GitHub account."""

    user: str
    """The person's id here."""
    email: str
    github_id: int
    login: str
    """Their name at GitHub."""
    sealed: bytes = field(repr=False)
    """Access and refresh token."""
    expires_at: datetime | None
    refresh_expires_at: datetime | None
    refresh_epoch: int
    """Counts the attempts to get newer tokens, what they got, and the logins."""
    failure: str | None
    """Why the tokens are good for nothing any more: the person has to log in again."""
    connected_at: datetime


@dataclass(frozen=True, slots=True)
class Pending:
    """A login that has begun: the person types the code at the address."""

    sealed: bytes = field(repr=False)
    """The device code."""
    user_code: str
    url: str
    every_seconds: int
    ask_after: datetime
    """GitHub is not asked before."""
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Person:
    """Who acts at GitHub, and the token that does."""

    login: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """Where a login stands. `begun` and `waiting` have address and code; `connected` and `already` have the login."""

    status: Literal["begun", "waiting", "connected", "already"]
    login: str = ""
    url: str = ""
    code: str = ""
    seconds: int = 0
    """When to ask again."""


@dataclass(frozen=True, slots=True)
class Gone:
    """An account that was disconnected here; `revoked`: at GitHub, too."""

    login: str
    revoked: bool
