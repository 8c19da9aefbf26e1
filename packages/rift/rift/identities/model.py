"""A person's identity at another sign-in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Identity:
    """Which account somebody has who is signed in there under this subject."""

    issuer: str
    subject: str
    user: str
    """The user's id."""
    email: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Back:
    """What a browser comes back with from there: none of it is believed yet."""

    state: str = field(repr=False)
    code: str = field(repr=False)
    issuer: str | None
    error: str
