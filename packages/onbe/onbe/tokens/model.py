"""What tokens of others say, once they are believed, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from keel.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Assertion:
    """An agent that has shown who it is. Source: RFC 7523, 3."""

    agent: str
    jti: str
    expires_at: datetime
    instance: str | None
    """Which of its running copies it is, as it says."""
    audience: str
    """Whom it is addressed to."""


@dataclass(frozen=True, slots=True)
class Unauthentic:
    """An assertion that is not taken. `agent` is there where its signature held: then the denial names somebody."""

    refusal: Refusal
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class SubjectRules:
    """Whose tokens say who a person is. Source: settings, Onbe:Subjects."""

    issuer: str | None
    audiences: tuple[str, ...]
    types: tuple[str, ...]
    """`typ` values that are taken, without the media type's `application/`; any where there are none."""
    claim: str


@dataclass(frozen=True, slots=True)
class Person:
    """A person whose token was believed."""

    sponsor: str
    scope: tuple[str, ...] | None
    """What the token allows. None where it says nothing of scope, as an ID token: then it narrows nothing."""


@dataclass(frozen=True, slots=True)
class Presented:
    """A task token of ours that somebody brings and that has not expired. Source: RFC 8693, 4.1."""

    jti: str
    task: str
    agent: str
    """Whose token it is."""
    scope: tuple[str, ...]
    expires_at: datetime
