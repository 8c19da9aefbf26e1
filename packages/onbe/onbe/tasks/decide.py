"""Whether a task still gives tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.refusal import Refusal, Stop
from onbe.names import TASK_ENDING
from onbe.tasks import refusals
from onbe.tasks.model import Task


def decide_alive(task: Task, ancestors: Sequence[Task], now: datetime) -> Refusal | None:
    """Checks 2 to 4 of a refresh, in their order; `ancestors` are the tasks that it was delegated from.

    What was revoked is told as revoked also after it would have expired. Source: seed 002, What a task grant will not
    do; When a task ends.
    """
    if task.end == "revoked":
        own = task.end_reason != refusals.parent_revoked.code
        return refusals.task_revoked(Stop()) if own else refusals.parent_revoked(Stop())
    if any(ancestor.end == "revoked" for ancestor in ancestors):
        return refusals.parent_revoked(Stop())
    line = (task, *ancestors)
    if any(one.end == "expired" for one in line) or any(one.expires_at <= now for one in line):
        return refusals.task_expired(Stop())
    if any(one.expires_at - now <= TASK_ENDING for one in line):
        return refusals.task_ending(Stop())
    return None
