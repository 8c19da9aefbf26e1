"""Agents and sponsors, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

Http = Literal["no", "loopback", "any"]
"""Where a jwks_uri may be http://, without TLS."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a registration is held inside, by the settings of the moment."""

    min_task_ttl: timedelta
    max_task_ttl: timedelta
    min_token_ttl: timedelta
    max_token_ttl: timedelta
    http: Http = "no"


@dataclass(frozen=True, slots=True)
class Problem:
    """One member of a registration that is not taken."""

    pointer: str
    """A JSON pointer as a URI fragment (RFC 6901, 6; RFC 9457, 3): `#/allowed_scopes/0`."""
    detail: str
    """What it should be. Nothing of the value stands in it."""


@dataclass(frozen=True, slots=True)
class Registration:
    """An agent that may ask for tokens. Source: seed 002, Two clocks, not one; the admin API."""

    agent_id: str
    display_name: str
    allowed_scopes: tuple[str, ...]
    allowed_audiences: tuple[str, ...]
    max_task_ttl: timedelta | None
    """None: the server's default at the time of the exchange."""
    max_token_ttl: timedelta | None
    max_delegation_depth: int
    high_risk_audiences: tuple[str, ...]
    jwks_uri: str | None
    jwks: Mapping[str, Any] | None
    """Exactly one of the two is there."""
    enabled: bool
    created_at: datetime
    updated_at: datetime
    tasks_ended_at: datetime | None = None
    """When all its tasks were last ended at once: an exchange that began before gets none."""

    def __post_init__(self) -> None:
        for name in ("allowed_scopes", "allowed_audiences", "high_risk_audiences"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class Page:
    """Some registrations, in the order of their ids."""

    agents: tuple[Registration, ...]
    more: bool
    """Whether others follow."""


@dataclass(frozen=True, slots=True)
class Sponsor:
    """A person for whom agents act, by the key that the identity provider knows them by."""

    key: str
    blocks: Mapping[str, Any]
    """By the source that placed it (`admin`): `{"at": instant, "reason": text}`. One that is there blocks."""
    tasks_ended_at: datetime | None = None

    @property
    def blocked(self) -> bool:
        """Whether anybody has blocked them."""
        return bool(self.blocks)
