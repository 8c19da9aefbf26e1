"""A task, as a plain value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from onbe.names import TASK_ID

End = Literal["expired", "revoked"]
State = Literal["open", "expired", "revoked"]
EndReason = Literal[
    "revoked_by_agent", "task_killed", "agent_killed", "sponsor_killed", "sponsor_blocked", "parent_revoked"
]
"""Why a task was revoked: its agent's own wish; an administrator's, for one task, all of an agent or all of a person; a
block of the person; the end of the task that it was delegated from."""


def is_id(text: str) -> bool:
    """Whether a text could be a task's id."""
    return re.fullmatch(TASK_ID, text) is not None


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work. Source: seed 002, first paragraph."""

    id: str
    """`task_` and a ULID."""
    agent: str
    sponsor: str
    audience: str
    scope: tuple[str, ...]
    """What it was granted; a refresh may ask for less, never for more."""
    created_at: datetime
    expires_at: datetime
    """Whole seconds."""
    parent: str | None
    """The task that this one was delegated from."""
    depth: int
    """1 for a task that a person's token began."""
    chain: tuple[str, ...]
    """The agents on the way, the newest first: its own agent, its parent's, …"""
    instance: str | None = None
    renewals: int = 0
    ended_at: datetime | None = None
    end: End | None = None
    """How it ended; None while it lives, also when it has expired and no sweeper came by yet."""
    end_reason: EndReason | None = None
    """Why it was revoked; None for one that expired."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scope", tuple(self.scope))
        object.__setattr__(self, "chain", tuple(self.chain))

    def state(self, now: datetime) -> State:
        """How it stands: expired as soon as its time is over, whether a sweeper came by or not."""
        return self.end or ("open" if now < self.expires_at else "expired")
