"""What may be done with a box, from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from keel.refusal import Refusal
from rift.boxes import refusals
from rift.boxes.model import Box, OpenCommand, Standing

Step = Literal["start", "revive", "park", "destroy", "orphan"]


@dataclass(frozen=True, slots=True)
class Enqueue:
    """The command may be queued. `wake`: the box is parked and must resume for it."""

    wake: bool


@dataclass(frozen=True, slots=True)
class Park:
    """The box may be parked. `needed`: it is not parked already."""

    needed: bool


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
    if box.seen_at is not None and now - box.seen_at > unheard:
        return "revive"
    return "park" if box.claimed and now - box.used_at >= unused else None
