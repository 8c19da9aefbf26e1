"""What may be done with a box, from plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from keel.refusal import Refusal
from rift.boxes import refusals
from rift.boxes.model import Box, Most, OpenCommand, Room, Standing, Warm
from rift.environments.model import Environment
from rift.hosts.model import Shortage

Step = Literal["start", "revive", "park", "destroy", "orphan"]


@dataclass(frozen=True, slots=True)
class Enqueue:
    """The command may be queued. `wake`: the box is parked and must resume for it."""

    wake: bool


@dataclass(frozen=True, slots=True)
class Park:
    """The box may be parked. `needed`: it is not parked already."""

    needed: bool


@dataclass(frozen=True, slots=True)
class Cold:
    """A box may be made. `gives_way`: the warm box that goes for it."""

    gives_way: str | None = None


@dataclass(frozen=True, slots=True)
class Tight:
    """There is no room: which of the three bounds is met. `gives_way`: the warm box that goes, for the next call."""

    bound: Literal["organization", "host", "reserve"]
    gives_way: str | None = None


def decide_cold(
    room: Room, most: Most, short: Shortage | None, organization: str, warm: Sequence[Warm]
) -> Cold | Tight:
    """Whether a person's box may be made where no warm one is at hand. People come before pools.

    One warm box gives way to it: of the same organization where that has as many as it may, else of any, their own
    first. Where disk or memory is short nobody knows how much it gives back, so the claim is refused all the same.
    """
    ours = [one for one in warm if one.organization == organization]
    goes = _gives_way(ours) or _gives_way(warm)
    if short is not None:
        return Tight("reserve", goes)
    if room.organization >= most.organization:
        own = _gives_way(ours)
        return Cold(own) if own else Tight("organization")
    if most.host is not None and room.host >= most.host:
        return Cold(goes) if goes else Tight("host")
    return Cold()


def decide_warm(wanted: int, room: Room, most: Most, short: Shortage | None) -> int:
    """How many of the warm boxes that a pool wants may be made: none takes the last room of disk or memory."""
    if short is not None:
        return 0
    left = most.organization - room.organization
    if most.host is not None:
        left = min(left, most.host - room.host)
    return max(0, min(wanted, left))


def _gives_way(warm: Sequence[Warm]) -> str | None:
    """Of the pool that has most, one that does not run yet before one that does, the youngest first."""
    if not warm:
        return None
    sizes = Counter(one.pool for one in warm)
    return max(warm, key=lambda one: (sizes[one.pool], one.state == "starting", one.created_at, one.id)).id


def doing(box: Box, environment: Environment | None, now: datetime) -> str:
    """What is being done for a box that starts, in words; "" where there is nothing to tell but that it starts."""
    if environment is None or environment.state != "ready":
        return environment.doing(now) if environment else "its environment waits to be built"
    if environment.made is None or not environment.made.setup or not box.began_at:
        return ""
    return f"running the repository's setup, {max(0, int((now - box.began_at).total_seconds()))} s so far"


def decide_pick(vm: str, boxes: Sequence[Box]) -> Box | Refusal:
    """Which VM of a task an id or a name means. An id wins over a name; a destroyed VM answers to its id only."""
    for box in boxes:
        if box.id == vm:
            return box
    named = [box for box in boxes if box.name == vm and box.state not in ("destroyed", "destroying")]
    if len(named) > 1:
        return refusals.ambiguous(vm, named)
    return named[0] if named else refusals.unknown(vm, boxes[0] if boxes else None)


def decide_command(box: Box) -> Enqueue | Refusal:
    """Whether a box takes commands; that it takes one more is guarded by the write itself."""
    if box.state in ("destroying", "destroyed"):
        return refusals.gone(box)
    if box.state == "failed":
        return refusals.failed(box)
    return Enqueue(wake=box.state == "parked")


def decide_suspend(box: Box, open: Sequence[OpenCommand]) -> Park | Refusal:
    """Whether a box may be parked when asked for."""
    if box.state in ("destroying", "destroyed"):
        return refusals.gone(box)
    if box.state == "failed":
        return refusals.failed(box)
    if box.state == "starting":
        return refusals.starting(box)
    if open:
        return refusals.busy(box, open)
    return Park(needed=box.state == "running")


def decide_idle(box: Box, open: int, now: datetime, after: timedelta) -> bool:
    """Whether a box of a task is unused for so long that it parks by itself. Busy is never idle."""
    return box.state == "running" and box.task is not None and open == 0 and now - box.used_at >= after


def decide_again(box: Box, most: int, steady: timedelta) -> int | None:
    """Whether the agent of a box is started once more: which of its tries that is, None when there were enough.

    One that was heard for as long as `steady` after its start has stayed up: the tries begin anew.
    """
    if box.began_at and box.seen_at and box.seen_at - box.began_at >= steady:
        return 1
    return box.tries + 1 if box.tries < most else None


FULL = ("No space left on device", "Disk quota exceeded")
"""What the system calls a disk without room, in whatever program's words it comes."""


def decide_failed_start(box: Box, reason: str) -> Literal["fail", "wait"]:
    """What becomes of a box whose start the driver or the forge refused.

    One that has files with work in them and only lacks room on the disk waits for it, however long that takes.
    """
    return "wait" if box.state == "running" and any(text in reason for text in FULL) else "fail"


def decide_upkeep(box: Standing, now: datetime, unheard: timedelta, unused: timedelta) -> Step | None:
    """The next step of a box that a lost job left, or that the hour asks for.

    `orphan` is a box that nobody can have any more: of a closed task, of an owner who left the organization, or a
    warm one that failed. `park` is looked at once more under the box's lock, by `decide_idle`.
    """
    if box.state == "destroying":
        return "destroy"
    if box.state == "destroyed":
        return None
    if box.closed or (box.claimed and not box.member) or (box.state == "failed" and not box.claimed):
        return "orphan"
    if box.state == "starting":
        return "start"
    if box.state != "running":
        return None
    if box.over or (box.seen_at is not None and now - box.seen_at > unheard):
        return "revive"
    return "park" if box.claimed and now - box.used_at >= unused else None
