"""How a pool comes to what is wanted, from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rift.names import HEAD_RESTS, POOL_RESTS_MOST
from rift.pools.model import Fill, Wanted, WarmBox


def decide_fill(wanted: Wanted | None, boxes: Sequence[WarmBox], now: datetime) -> Fill:
    """Never more than is missing; boxes of another head go, and what is too many goes, the youngest first.

    `wanted` is None where the ref is not watched: then all go. Boxes are made once the head's environment is there.
    """
    if wanted is None or wanted.head is None:
        return Fill(0, tuple(box.id for box in boxes))
    stale = [box.id for box in boxes if box.commit != wanted.head]
    fresh = [box for box in boxes if box.commit == wanted.head]
    surplus = [box.id for box in _running_first(fresh)[wanted.warm :]]
    resting = wanted.failed_at is not None and now - wanted.failed_at < _rest(wanted, wanted.failed_at)
    return Fill(0 if resting or not wanted.ready else max(0, wanted.warm - len(fresh)), tuple(stale + surplus))


def _rest(wanted: Wanted, failed_at: datetime) -> timedelta:
    """How long no box is made by itself after a failure: as long as they have failed so far, so about twice as long
    each time. A setup may take half an hour of the machine, and who pushed it may be gone for the night.
    """
    lasted = failed_at - wanted.failing_since if wanted.failing_since else timedelta(0)
    return min(max(HEAD_RESTS, lasted), POOL_RESTS_MOST)


def _running_first(boxes: Sequence[WarmBox]) -> list[WarmBox]:
    return sorted(boxes, key=lambda box: (box.state != "running", box.created_at))
