"""What a call on a box is refused with."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import YOUR_HANDLE, Ask, Call, Mend, Refusal, Retry, kind
from keel.sizes import MIB
from rift.boxes.model import Box, OpenCommand
from rift.hosts.model import Shortage
from rift.people.model import OPERATOR

_LIST = Call("rift_vm_ls", {"task": YOUR_HANDLE})

_UNKNOWN = kind("vm_unknown", "The task has no VM {vm}. rift_vm_ls lists its VMs; rift_vm_new claims another.")
_AMBIGUOUS = kind(
    "vm_ambiguous", "{count} VMs of the task have the name {name}. Call again with one of their ids: {ids}."
)
_GONE = kind("vm_gone", "The VM {vm} is {state}: it runs nothing any more. rift_vm_new claims another.")
_FAILED = kind(
    "vm_failed",
    "The VM {vm} has failed and runs nothing. rift_vm_destroy puts it away, rift_vm_new tries another. Why: {failure}",
)
_BUSY = kind(
    "vm_busy",
    "The VM {vm} has open commands and does not park: {open}. "
    "Wait for them with rift_output or end them with rift_stop.",
)
_STARTING = kind("vm_starting", "The VM {vm} is still starting and cannot be parked yet. rift_vm_ls says when it runs.")
_FULL = kind("vm_full", "The VM {vm} runs {count} commands, the most at once; this one did not run. Open: {open}.")
_LEFT = kind(
    "vm_not_member",
    "You are no longer a member of the organization that {repository} belongs to, so its VMs are out of reach.",
)


def unknown(vm: str, box: Box | None = None) -> Refusal:
    """No VM of the task has this id or name."""
    new = {"task": YOUR_HANDLE, "repo": "<owner/name>", "ref": "<branch>"}
    if box is not None:
        new |= {"repo": box.repository, "ref": box.ref}
    return _UNKNOWN(_LIST, Call("rift_vm_new", new), vm=vm[:80])


def ambiguous(name: str, boxes: Sequence[Box]) -> Refusal:
    """Several VMs of the task have the name; the answer gives their ids (contract: Boxes)."""
    ids = ", ".join(box.id for box in boxes)
    return _AMBIGUOUS(_LIST, count=len(boxes), name=name, ids=ids)


def gone(box: Box) -> Refusal:
    """Destroyed, or being destroyed."""
    state = "being destroyed" if box.state == "destroying" else "destroyed"
    return _GONE(
        Call("rift_vm_new", {"task": YOUR_HANDLE, "repo": box.repository, "ref": box.ref}), vm=box.id, state=state
    )


def failed(box: Box) -> Refusal:
    """It never came up, or could not go on; the whole reason is said."""
    return _FAILED(
        Call("rift_vm_destroy", {"task": YOUR_HANDLE, "vm": box.id}),
        Call("rift_vm_new", {"task": YOUR_HANDLE, "repo": box.repository, "ref": box.ref}),
        vm=box.id,
        failure=box.failure or "unknown",
    )


def busy(box: Box, open: Sequence[OpenCommand]) -> Refusal:
    """It has an open command, so it does not park."""
    return _BUSY(*reading_or_stopping(open), vm=box.id, open=ids(open))


def starting(box: Box) -> Refusal:
    """Nothing to park yet."""
    return _STARTING(_LIST, vm=box.id)


def full(box: Box, open: Sequence[OpenCommand]) -> Refusal:
    """Four are open: the answer names each, with the calls that take its id (contract: Boxes)."""
    return _FULL(*reading_or_stopping(open), vm=box.id, count=len(open), open=ids(open))


def not_member(box: Box) -> Refusal:
    """Membership is checked at each call, also for a box claimed earlier."""
    return _LEFT(Ask("an admin of the organization", "an invitation"), _LIST, repository=box.repository)


def reading_or_stopping(open: Sequence[OpenCommand]) -> list[Call]:
    """The calls that take the ids of open commands: one rift_output for all, a rift_stop for each."""
    wait = Call(
        "rift_output",
        {"task": YOUR_HANDLE, "commands": [{"id": one.id, "offset": 0} for one in open], "block_for": 30},
    )
    return [wait, *(Call("rift_stop", {"task": YOUR_HANDLE, "id": one.id}) for one in open)]


def ids(open: Sequence[OpenCommand]) -> str:
    """The open commands' ids, in words."""
    return ", ".join(one.id for one in open)


_PERSON = kind(
    "vm_limit",
    "You have {count} VMs, and one person may have {most} at once, so none was given. All in your open tasks count, "
    "parked and failed ones too.{yours}",
)
_ORGANIZATION = kind(
    "vm_org_limit",
    "The organization {org} has {count} VMs, and it may have {most} at once, so none was made. All of its repositories "
    "count.{yours}",
)
_HOST = kind("host_full", "The host of the VMs is full, so none was made: {short}.{yours}")
FREED_TOLD = 3
"""How many VMs, and how many other tasks, a refusal suggests to end."""
GIVES_WAY_SECONDS = 10.0
"""By then a warm box that gives way is gone, and the host has been looked at again."""


def too_many(boxes: Sequence[Box], task: str, most: int) -> Refusal:
    """A person has as many as one may. `boxes` are theirs, `task` is the id of the one that asks."""
    ask = Ask(OPERATOR, f"a Rift:Boxes:PerPerson above {most}, if so many are meant")
    return _PERSON(*freeing(boxes, task), ask, count=len(boxes), most=most, yours=_yours(boxes, task))


def organization_full(org: str, count: int, most: int, boxes: Sequence[Box], task: str) -> Refusal:
    """An organization has as many as it may; `boxes` are the caller's own."""
    ask = Ask(OPERATOR, f"a Rift:Boxes:PerOrganization above {most}, if so many are meant")
    return _ORGANIZATION(*freeing(boxes, task), ask, org=org, count=count, most=most, yours=_yours(boxes, task))


def host_holds(count: int, most: int, boxes: Sequence[Box], task: str) -> Refusal:
    """The host has as many as it may."""
    short = f"it has {count} VMs and holds {most}"
    ask = Ask(OPERATOR, f"VMs that can go, more memory, or a Rift:Boxes:Most above {most}")
    return _HOST(*freeing(boxes, task), ask, short=short, yours=_yours(boxes, task))


def host_short(short: Shortage, boxes: Sequence[Box], task: str, gives_way: bool) -> Refusal:
    """The host has too little left. `gives_way`: a warm box goes for this claim, so that another try may find room."""
    told, settings = [], []
    for what, setting, pair in (("disk", "DiskReserve", short.disk), ("memory", "MemoryReserve", short.memory)):
        if pair is not None:
            free, reserve = (size // MIB for size in pair)
            told.append(f"{free} MiB of {what} are free and {reserve} MiB must stay free")
            settings.append(f"Rift:Boxes:{setting}")
    again: list[Mend] = [Retry(GIVES_WAY_SECONDS)] if gives_way else []
    ask = Ask(OPERATOR, f"room on the host, or a smaller {' and '.join(settings)}")
    return _HOST(*again, *freeing(boxes, task), ask, short=", ".join(told), yours=_yours(boxes, task))


def freeing(boxes: Sequence[Box], task: str) -> list[Call]:
    """The calls that free room: destroy VMs of this task, the least needed first; attach other tasks that hold some.

    Failed ones come first, then parked ones, then those that were used longest ago. A handle is good for its own task
    alone, so another one is attached before its VMs are destroyed.
    """
    order = sorted(boxes, key=lambda box: (box.state != "failed", box.state != "parked", box.used_at, box.id))
    here = [box for box in order if box.task == task][:FREED_TOLD]
    others = list(dict.fromkeys(box.task for box in order if box.task and box.task != task))[:FREED_TOLD]
    return [
        *(Call("rift_vm_destroy", {"task": YOUR_HANDLE, "vm": box.id}) for box in here),
        *(Call("rift_task_attach", {"task": other}) for other in others),
    ]


def _yours(boxes: Sequence[Box], task: str) -> str:
    """Whose VMs they are, as a sentence."""
    if not boxes:
        return " None of them is yours."
    here = sum(box.task == task for box in boxes)
    parked = sum(box.state == "parked" for box in boxes)
    elsewhere = len(boxes) - here
    more = f" and {elsewhere} in other tasks of yours, to be attached first" if elsewhere else ""
    return f" This task has {here} of them{more}; parked: {parked}."
