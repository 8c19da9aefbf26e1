"""A task, its handle, and the clocks read off it. Source: the contract, Tasks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from keel.ids import ALPHABET, digest
from rift.names import TASK_PREFIX

_ID = re.compile(rf"{TASK_PREFIX}[{ALPHABET}]{{8}}")


@dataclass(frozen=True, slots=True)
class Clocks:
    """How long a task may be quiet: before its lease is up for taking, and before it closes itself."""

    lease: timedelta = timedelta(minutes=30)
    close: timedelta = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as stored. Open and without a holder, it is free; `secret_sha256` is the current lease's."""

    id: str
    owner: str
    name: str
    status: Literal["open", "closed"]
    secret_sha256: bytes | None
    holder: str | None
    held_since: datetime | None
    activity_at: datetime
    created_at: datetime
    closed_at: datetime | None

    def quiet(self, now: datetime) -> timedelta:
        """How long nothing happened under a good handle, by the activity clock."""
        return max(now - self.activity_at, timedelta(0))


@dataclass(frozen=True, slots=True)
class Handle:
    """What a caller presents as `task`: an id, and the secret's digest where there was a secret."""

    id: str
    secret_sha256: bytes | None

    @classmethod
    def parse(cls, text: str) -> Handle | None:
        """Read `task_<id>.<secret>` or a bare `task_<id>`. None when the text is neither. The secret is not kept."""
        name, dot, secret = text.strip().partition(".")
        if not _ID.fullmatch(name):
            return None
        return cls(name, digest(secret) if dot and secret else None)


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease just minted: the only time its handle is seen whole."""

    task: Task
    secret: str

    @property
    def handle(self) -> str:
        """`task_<id>.<secret>`: what the agent carries."""
        return f"{self.task.id}.{self.secret}"
