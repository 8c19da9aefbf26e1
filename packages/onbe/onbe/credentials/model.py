"""What is asked about a token or a grant, what is stored of it, and what is answered, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from onbe.directory.model import Registration
from onbe.tasks.model import End


@dataclass(frozen=True, slots=True)
class Ask:
    """A request about one token or grant. Source: RFC 7009, 2.1; RFC 7662, 2.1; RFC 7523, 2.2."""

    assertion: str | None = field(repr=False)
    """The agent's own JWT; None for an administrator, who has shown the key already."""
    token: str = field(repr=False)
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored, at one moment, of whoever asks and of the token."""

    asker: Registration | None
    task: bool = False
    """Whether the token's task is there. What follows is of that task."""
    enabled: bool = False
    """Whether its agent, and every agent that it was delegated through, may act today."""
    end: End | None = None
    end_reason: str | None = None
    ended_at: datetime | None = None
    revoked_at: datetime | None = None
    """When this one token was revoked."""
    revoked_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Active:
    """A token that is good at this moment."""

    claims: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inactive:
    """Anything else. When and why is there for a token of ours that was revoked and would be good otherwise."""

    revoked_at: datetime | None = None
    reason: str | None = None
