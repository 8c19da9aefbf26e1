"""A box, its states, and its name. Source: the contract, MCP tools, Boxes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rift.tasks.model import Task

State = Literal["starting", "running", "parked", "destroying", "destroyed", "failed"]

TRANSITIONS: dict[State, frozenset[State]] = {
    "starting": frozenset({"running", "failed", "destroying"}),
    "running": frozenset({"running", "parked", "failed", "destroying"}),
    "parked": frozenset({"running", "failed", "destroying"}),
    "failed": frozenset({"destroying"}),
    "destroying": frozenset({"destroyed"}),
    "destroyed": frozenset(),
}
"""Where a box may go from each state. `running` to itself is a new incarnation: its agent was started again."""

LIVING: frozenset[State] = frozenset({"starting", "running", "parked"})
"""The states in which a box takes commands."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box as stored, with what its repository says of it."""

    id: str
    name: str
    number: int
    repo: str
    ref: str
    commit: str
    task: str | None
    state: State
    failure: str | None
    incarnation: int
    """Which start of the box's agent this is; a message of an older one is ignored."""
    epoch: int
    """Counts parkings and resumings; a driver ignores an older one."""
    token_sha256: bytes | None
    next_command: int
    seen_at: datetime | None
    """When its agent was last heard."""
    used_at: datetime
    created_at: datetime
    ended_at: datetime | None
    repo_owner: str
    repo_name: str
    org: str
    network: str
    tries: int = 0
    """How often its agent was started since it last stayed up, or since a worker last began."""
    began_at: datetime | None = None
    """When the start of this incarnation began."""
    lacks: str = ""
    """What its checkout lacks (submodules, LFS files), in sentences; "" for nothing."""
    refused: int = 0
    """Which of the refusals that its agent tells were recorded last."""
    checkout: str | None = None
    """The name of its checkout's folder, which its repository had when it was first started."""
    doing: str = ""
    """Of one that starts, where it is told: what is being done for it, in words. It is not stored."""
    secrets_version: int = 0
    """Counts the changes of its repository's secrets; 0 where it never had any."""

    @property
    def repository(self) -> str:
        """`OWNER/NAME`."""
        return f"{self.repo_owner}/{self.repo_name}"


@dataclass(frozen=True, slots=True)
class BoxFor:
    """A box, and whether the person who calls is in its organization."""

    box: Box
    member: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """A box as upkeep looks at it."""

    id: str
    state: State
    seen_at: datetime | None
    used_at: datetime
    over: bool
    """Whether its agent is known to have ended."""
    claimed: bool
    """Whether a task holds it; if not, it is warm."""
    closed: bool
    """Whether that task is closed."""
    member: bool
    """Whether the task's owner is in the organization of the box's repository."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many boxes there are that are neither destroyed nor being so: of a person, an organization, the host."""

    person: int
    organization: int
    """Of its repositories, the warm ones too."""
    host: int


@dataclass(frozen=True, slots=True)
class Most:
    """How many there may be."""

    person: int
    organization: int
    host: int | None
    """None where nobody knows what the host holds."""


@dataclass(frozen=True, slots=True)
class Warm:
    """A box that nobody has claimed, as one that may give way: whose it is, which pool it is of."""

    id: str
    organization: str
    pool: tuple[str, str]
    """Repository (id) and ref."""
    state: State
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OpenCommand:
    """A command that has not ended, as a box's line shows it."""

    box: str
    n: int
    kind: str
    input: str
    claimed: bool
    created_at: datetime

    @property
    def id(self) -> str:
        """`<vm>.<n>`."""
        return f"{self.box}.{self.n}"


@dataclass(frozen=True, slots=True)
class BoxLine:
    """A box in a list, with its open commands."""

    box: Box
    open: tuple[OpenCommand, ...]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """An open task in a list, with its boxes."""

    task: Task
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class TaskView:
    """An open task as the page Boxes shows it: its boxes, each with its open commands."""

    task: Task
    boxes: tuple[BoxLine, ...]


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed task: the boxes that it had, and those that were still going when the answer was due."""

    task: Task
    boxes: tuple[Box, ...]
    still: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PersonsUse:
    """A person with an account, and what they use at this moment, as the platform admin sees them."""

    id: str
    email: str
    admin: bool
    """Whether they are the platform admin."""
    created_at: datetime
    disabled_at: datetime | None
    seen_at: datetime | None
    """The latest use of any session or token of theirs; None before the first."""
    tokens: int
    """Of their MCP clients, those not revoked."""
    sessions: int
    """Browsers that are signed in."""
    tasks: int
    """Open ones."""
    boxes: int
    """Those neither destroyed nor being so."""


def stem(repo_name: str, ref: str) -> str:
    """The part of a box's name before its number: letters, digits, `.` and `_` of the ref stay, the rest is `-`."""
    return f"{repo_name}-{re.sub(r'[^A-Za-z0-9._]', '-', ref)}"


def smallest_free(taken: set[int]) -> int:
    """The smallest positive number that no living box of the repository and ref has."""
    number = 1
    while number in taken:
        number += 1
    return number
