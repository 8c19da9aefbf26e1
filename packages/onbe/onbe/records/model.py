"""A record as a reader of the audit sees it, and which ones are asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

By = Literal["agent", "sponsor", "reason"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One record. `agent` is also `admin`, `cli` or `sweeper`, where no agent acted."""

    seq: int
    at: datetime
    sponsor: str | None
    agent: str | None
    action: str
    task: str | None
    outcome: str
    """`ok`, or the reason of a denial."""
    duration_us: int
    facts: str
    """JSON, as the record holds it."""

    @property
    def allowed(self) -> bool:
        """Whether it tells of something that was done."""
        return self.outcome == "ok"

    def told(self) -> dict[str, Any]:
        """Its members for programs. Source: seed 002, the ledger; `decision` and `reason` are its outcome."""
        return {
            "seq": self.seq,
            "at": self.at.isoformat(timespec="microseconds"),
            "sponsor": self.sponsor,
            "agent_id": self.agent,
            "task_id": self.task,
            "action": self.action,
            "decision": "allow" if self.allowed else "deny",
            "reason": None if self.allowed else self.outcome,
            "duration_ms": self.duration_us / 1000,
            "facts": json.loads(self.facts),
        }


Place = tuple[datetime, int]
"""Where a page ended: the instant and the seq of its last record."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records to list, the newest first; None is any. `decision` is `allow`, `deny`, or a reason."""

    sponsor: str | None = None
    agent: str | None = None
    task: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    decision: str | None = None
    after: Place | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Span:
    """What is to be summed up: by what, from when, until when."""

    by: By
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Sum:
    """How often something was allowed and denied. `key` is None where the records name nobody."""

    key: str | None
    allowed: int
    denied: int


@dataclass(frozen=True, slots=True)
class Series:
    """Which checkpoints: those after a number, so many."""

    after: int = 0
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Seal:
    """Where a record is sealed."""

    checkpoint: int
    at: datetime
    position: int


@dataclass(frozen=True, slots=True)
class Shown:
    """One record with its seal; None while it is not sealed yet."""

    entry: Entry
    seal: Seal | None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed record on its way to the sink. `entry` is None where its row is in no partition: it was archived."""

    position: int
    seq: int
    leaf: bytes
    entry: Entry | None

    def line(self) -> bytes:
        """Its line, without the line break."""
        told: dict[str, Any] = {"seq": self.seq, "position": self.position, "leaf": self.leaf.hex()}
        told |= self.entry.told() if self.entry else {"absent": True}
        return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Claim:
    """How far the sink has the ledger, for whoever is handing it on now."""

    position: int
    failures: int
    """How many deliveries in a row were not taken."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a query: the parameter, and a sentence that does not repeat its value."""

    parameter: str
    sentence: str
