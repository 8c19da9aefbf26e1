"""What a task call is refused with. Every refusal names the tool that mends it (contract: Tasks, Refusals)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.refusal import YOUR_HANDLE, Ask, Call, Refusal, kind
from rift.people.model import OPERATOR
from rift.tasks.model import Task
from rift.times import age, when

_NEW = Call("rift_task_new", {"name": "<what the work is>"})
_LIST = Call("rift_task_ls", {})

_NO_HANDLE = kind(
    "no_handle",
    "This call needs a task's handle, task_<id>.<secret>, in its argument task. "
    "rift_task_new opens a task and answers its handle.",
)
_BARE_ID = kind(
    "bare_task_id",
    "{task} is a task's id without its secret; the id alone buys nothing. rift_task_attach answers a handle for it.",
)
_UNKNOWN = kind("task_unknown", "There is no task {task} of yours. rift_task_ls lists your open tasks.")
_CLOSED = kind("task_closed", "The task {task} is closed and its VMs are gone. rift_task_new opens another.")
_RELEASED = kind("task_released", "The task {task} was released and nobody holds it. rift_task_attach takes it up.")
_STALE = kind(
    "task_held",
    "The handle is not the current lease of {task}: it is held by {holder} since {since}. "
    "rift_task_attach with takeover takes it over.",
)
_BUSY = kind(
    "task_in_use",
    "The task {task} is held by {holder} since {since} and was active {active}. "
    "rift_task_attach with takeover takes it over.",
)


def no_handle() -> Refusal:
    """No handle, or a text that is none."""
    return _NO_HANDLE(_NEW, _LIST)


def bare_id(task: str) -> Refusal:
    """An id where a handle belongs: the same answer whether the task exists or not."""
    return _BARE_ID(Call("rift_task_attach", {"task": task}), task=task)


def unknown(task: str) -> Refusal:
    """Not theirs and not there are one refusal, so that nothing is learned of other people's tasks."""
    return _UNKNOWN(_LIST, _NEW, task=task)


def closed(task: Task) -> Refusal:
    """Its boxes are gone."""
    return _CLOSED(_NEW, task=task.id)


def released(task: Task) -> Refusal:
    """Open, and free for the taking."""
    return _RELEASED(Call("rift_task_attach", {"task": task.id}), task=task.id)


def stale(task: Task, now: datetime) -> Refusal:
    """An older handle of a task that somebody holds now."""
    return _STALE(
        Call("rift_task_attach", {"task": task.id, "takeover": True}),
        note=f"Another session of yours ({task.holder}) holds the task {task.id}; taking it over ends its handle.",
        task=task.id,
        holder=task.holder,
        since=_since(task, now),
    )


def busy(task: Task, now: datetime) -> Refusal:
    """Held, and active lately: only takeover takes it."""
    return _BUSY(
        Call("rift_task_attach", {"task": task.id, "takeover": True}),
        note=f"Another session of yours ({task.holder}) holds the task {task.id}; taking it over ends its handle.",
        task=task.id,
        holder=task.holder,
        since=_since(task, now),
        active=age(task.activity_at, now),
    )


def _since(task: Task, now: datetime) -> str:
    return when(task.held_since, now) if task.held_since else "an unknown time"


_NAME = kind(
    "task_name",
    "A task's name is 1 to {most} characters for a person to read, not only blanks or control characters.",
)


def bad_name(most: int) -> Refusal:
    """Nothing readable is left of the name."""
    return _NAME(_NEW, most=most)


_TOO_MANY = kind(
    "task_limit",
    "You have {count} open tasks, and one person may have {most} at once, so none was opened. Held and free ones "
    "count, closed ones do not. rift_task_close closes one under its handle, rift_task_attach gives the handle of one "
    "that nobody uses. Free or quiet for longest: {quiet}.",
)
QUIET_TOLD = 3
"""How many tasks a refusal suggests to close."""


def too_many(open: Sequence[Task], most: int, now: datetime) -> Refusal:
    """As many as there may be; those that nobody holds or that were quiet for longest are named, and the setting."""
    quiet = sorted(open, key=lambda task: (task.holder is not None, task.activity_at, task.id))[:QUIET_TOLD]
    return _TOO_MANY(
        Call("rift_task_close", {"task": YOUR_HANDLE}),
        *(Call("rift_task_attach", {"task": task.id}) for task in quiet),
        _LIST,
        Ask(OPERATOR, f"a Rift:Tasks:PerPerson above {most}, if so many are meant"),
        count=len(open),
        most=most,
        quiet=", ".join(f"{task.id} since {when(task.activity_at, now)}" for task in quiet),
    )
