"""What is asked of the token endpoint, what decides it, and what is given, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from onbe.directory.model import Registration, Sponsor
from onbe.tasks.model import Task

Status = Literal["active", "disabled", "not_found", "unknown"]
"""What the directory said of a person; `unknown`: it could not say."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A token exchange, as asked. Source: RFC 8693, 2.1; RFC 8707, 2."""

    assertion: str = field(repr=False)
    """The `actor_token`: the agent's own JWT."""
    subject_token: str = field(repr=False)
    resource: str
    scope: tuple[str, ...] | None
    """None: as much as is allowed."""
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh, as asked. Source: RFC 6749, 6; RFC 7523, 2.2."""

    assertion: str = field(repr=False)
    grant: str = field(repr=False)
    resource: str | None
    """None: the task's own. So for `scope`."""
    scope: tuple[str, ...] | None
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class Clocks:
    """The two clocks' defaults and bounds, as set today. Source: seed 002, Two clocks, not one."""

    default_task: timedelta
    default_token: timedelta
    task: tuple[timedelta, timedelta]
    """The least and the most."""
    token: tuple[timedelta, timedelta]


@dataclass(frozen=True, slots=True)
class Line:
    """What stands behind a task that was delegated: the tasks on the way up, and their agents' registrations.

    Empty for a task that a person's token began.
    """

    tasks: tuple[Task, ...] = ()
    """The parent first, then its parent, …"""
    agents: tuple[Registration, ...] = ()
    """The parent's agent first; shorter than `tasks` where one is gone."""

    @property
    def complete(self) -> bool:
        """Whether everything on the way is still there."""
        return len(self.tasks) == len(self.agents)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is stored about whoever asks, at one moment."""

    agent: Registration | None
    sponsor: Sponsor | None
    """None: nobody ever acted for them, nor blocked them."""
    task: Task | None = None
    """The grant's, at a refresh."""
    agents_named: tuple[str, ...] = ()
    """Of the names that a subject token gives its subject, those of registered agents."""


@dataclass(frozen=True, slots=True)
class Mint:
    """A token may be issued. Times are whole seconds."""

    audience: str
    scope: tuple[str, ...]
    issued_at: datetime
    expires_at: datetime
    task_expires_at: datetime
    introspect: bool
    """The audience is one of high risk: whoever takes the token shall ask us about it."""


@dataclass(frozen=True, slots=True)
class Issued:
    """What is answered. Source: RFC 8693, 2.2.1; RFC 6749, 5.1."""

    token: str = field(repr=False)
    jti: str
    scope: tuple[str, ...]
    expires_in: int
    """Seconds, rounded down."""
    task: str
    task_expires_at: datetime
    grant: str | None = field(default=None, repr=False)
    """The task grant, at an exchange. A refresh leaves it as it is, and does not repeat it."""


Claims = Mapping[str, object]
