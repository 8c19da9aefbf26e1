"""Who may do what to a task, from plain values. Nothing here reads a clock or a database.

Where several refusals fit, not-yours comes first, then closed, then released, then stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from keel.ids import same_digest
from keel.refusal import Refusal
from rift.names import TOUCH_EVERY
from rift.tasks import refusals
from rift.tasks.model import Clocks, Handle, Task


@dataclass(frozen=True, slots=True)
class Admitted:
    """The handle is the current lease. `touch`: the activity clock is due to move to now."""

    touch: bool


@dataclass(frozen=True, slots=True)
class Attach:
    """A new secret may be minted; the lease it replaces dies with it."""

    replaces: bytes | None
    touch: bool
    """The activity clock is due to move to now: it moves at most once a minute, also for an attach."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The task has been quiet for so long that it closes itself, now, before the call is answered."""

    task: Task


def decide_access(
    task: Task | None, user: str, handle: Handle, now: datetime, clocks: Clocks
) -> Admitted | Expired | Refusal:
    """Whether a call under `handle` may go on. Refusals: bare id, unknown, closed, released, stale."""
    if handle.secret_sha256 is None:
        return refusals.bare_id(handle.id)
    if task is None or task.owner != user:
        return refusals.unknown(handle.id)
    ended = _ended(task, now, clocks)
    if ended is not None:
        return ended
    if task.secret_sha256 is None:
        return refusals.released(task)
    if not same_digest(task.secret_sha256, handle.secret_sha256):
        return refusals.stale(task, now)
    return Admitted(touch=_due(task, now))


def decide_attach(
    task: Task | None, user: str, handle: Handle, takeover: bool, now: datetime, clocks: Clocks
) -> Attach | Expired | Refusal:
    """Whether a fresh handle may be minted: for a free task, for a quiet holder's, or by takeover."""
    if task is None or task.owner != user:
        return refusals.unknown(handle.id)
    ended = _ended(task, now, clocks)
    if ended is not None:
        return ended
    if task.secret_sha256 is not None and not takeover and task.quiet(now) < clocks.lease:
        return refusals.busy(task, now)
    return Attach(replaces=task.secret_sha256, touch=_due(task, now))


def decide_open(open: Sequence[Task], most: int, now: datetime) -> Refusal | None:
    """Whether a person with these open tasks may open another."""
    return refusals.too_many(open, most, now) if len(open) >= most else None


def _due(task: Task, now: datetime) -> bool:
    return now - task.activity_at >= TOUCH_EVERY


def _ended(task: Task, now: datetime, clocks: Clocks) -> Expired | Refusal | None:
    if task.status == "closed":
        return refusals.closed(task)
    return Expired(task) if task.quiet(now) >= clocks.close else None


def readable(name: str) -> str:
    """A task's name as it is kept: control characters become blanks, runs of blanks one, the ends trimmed."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())
