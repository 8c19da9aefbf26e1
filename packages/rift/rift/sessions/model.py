"""A browser that is signed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from rift.people.model import Caller

Method = Literal["link", "passkey", "sso"]
"""How somebody signed in: by a one-time link, by a passkey, at another sign-in."""


Kind = Literal["passkey_new", "passkey", "sso"]
"""What is half done in a browser: a new passkey, signing in by one, signing in elsewhere."""


@dataclass(frozen=True, slots=True)
class Session:
    """One browser of one person, from signing in to signing out. Its secret is in the browser's cookie alone."""

    id: str
    user: str
    """The user's id."""
    email: str
    admin: bool
    """Whether they are the platform admin, at this moment."""
    method: Method
    agent: str
    """What the browser said it is, for a person to know it again."""
    created_at: datetime
    seen_at: datetime
    """At most a minute behind its last page."""
    expires_at: datetime

    @property
    def caller(self) -> Caller:
        """Who acts when one of its pages does."""
        return Caller(self.user, self.email, self.admin, self.id, "", "web")


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody has just signed in: the session, its secret for the cookie, and the path of the page to go on to."""

    session: Session
    secret: str
    next: str


@dataclass(frozen=True, slots=True)
class Browser:
    """The browser that somebody signs in with."""

    agent: str
    """What it says it is."""
    had: str | None = None
    """The id of the session that it has: signing in anew ends it."""


@dataclass(frozen=True, slots=True)
class Ceremony:
    """What a browser has begun, when it comes to end it: once, and in time."""

    user: str | None
    """The id of who began it, if they were signed in."""
    facts: Mapping[str, Any]
