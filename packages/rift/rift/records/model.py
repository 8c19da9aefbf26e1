"""A record as a person reads it, and how it stands with its seal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

TextState = Literal["none", "kept", "erased", "changed"]
"""Of a record's text: it never had one; it is there and is the one it was made with; it is gone; it is another."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record. `who` is the person's email address, or None for a command on the server and for upkeep."""

    seq: int
    at: datetime
    actor: str | None
    who: str | None
    via: str | None
    action: str
    task: str | None
    box: str | None
    outcome: str
    duration_us: int
    arguments: str
    """JSON, as the record holds it."""
    text_sha256: bytes | None

    def told(self) -> dict[str, Any]:
        """Its members for programs."""
        return {
            "seq": self.seq,
            "at": self.at.isoformat(timespec="microseconds"),
            "user": self.who,
            "actor": self.actor,
            "via": self.via,
            "action": self.action,
            "task": self.task,
            "box": self.box,
            "outcome": self.outcome,
            "duration_ms": self.duration_us / 1000,
            "arguments": json.loads(self.arguments),
            "text_sha256": self.text_sha256.hex() if self.text_sha256 else None,
        }


@dataclass(frozen=True, slots=True)
class Seal:
    """Where a record is sealed."""

    checkpoint: int
    at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class Whole:
    """One record with everything that is kept of it. `seal` is None while it is not sealed yet."""

    entry: Entry
    text_state: TextState
    text: str | None
    seal: Seal | None


UNREFUSED = frozenset({"begun", "broken_off", "unknown"})
"""Outcomes beside `ok` and `error` that are no refusal: what was asked of a forge is under way, its asker went away,
its answer could not be read.
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records to list; None is any. `outcome` is an outcome, or `refused` for every refusal's code."""

    task: str | None = None
    box: str | None = None
    user: str | None = None
    action: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Erased:
    """How many texts were erased: of records, and of commands that have ended."""

    records: int
    commands: int


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who looks at the records on a page, with what they may read at this moment."""

    user: str
    orgs: tuple[str, ...] = ()
    """The organizations that they are an admin of, their own too."""
    nobodys: bool = False
    """Whether they also read what is of no person: a platform admin does."""

    @property
    def names(self) -> tuple[str, ...]:
        """As what they are noted beside records: themselves, and for each organization."""
        return (self.user, *self.orgs)


class Place(NamedTuple):
    """A place in the list of records, which is ordered by instant and number."""

    at: datetime
    seq: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Which of the records that somebody may read; None is any. `before` is where the page begins, going back."""

    task: str | None = None
    box: str | None = None
    actor: str | None = None
    """A person's id."""
    action: str | None = None
    outcome: str | None = None
    """An outcome, or `refused` for every refusal's code."""
    since: datetime | None = None
    until: datetime | None = None
    before: Place | None = None
    limit: int = 50

    @property
    def narrowed(self) -> bool:
        """Whether of the records in its period some may not fit."""
        return any(one is not None for one in (self.task, self.box, self.actor, self.action, self.outcome))


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a page's records can be: what the reader did, what is noted for these names, what is of nobody."""

    own: bool
    names: tuple[str, ...]
    nobodys: bool


@dataclass(frozen=True, slots=True)
class Erasable:
    """Whose texts somebody may erase in a task: of all its records, or of those of these boxes."""

    whole: bool
    boxes: tuple[str, ...] = ()
    org: str | None = None
    """The organization that the boxes are of, where it is one."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of records, the newest first."""

    entries: tuple[Entry, ...]
    boxes: Mapping[str, str]
    """Names of the boxes that it speaks of, by id."""
    tasks: Mapping[str, str]
    """Names of the reader's own tasks that it speaks of, by id."""
    older: Place | None
    """Where the next page begins; None at the end."""
    looked: bool = False
    """Whether the page ends because enough was looked through, and not because it is full or there is no more."""
    erasable: int | None = None
    """Of the task that was asked for: how many kept texts the reader may erase. None without a task, or no right."""
    which: tuple[str, ...] = ()
    """The ids of the boxes that have the name that was asked for, where they are more than one: nothing is shown."""


def text_state(kept: bool, made_with: bytes | None, found: bytes | None) -> TextState:
    """What to say of a record's text: `made_with` is its hash in the record, `found` that of what is kept."""
    if not kept:
        return "none" if made_with is None else "erased"
    return "kept" if made_with == found else "changed"


def names(found: Mapping[str, str], actor: str | None) -> str | None:
    """The email address of an actor; its id where the person is gone."""
    return None if actor is None else found.get(actor, actor)
