"""What a call on a box is refused with."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import YOUR_HANDLE, Ask, Call, Refusal, kind
from rift.boxes.model import Box, OpenCommand

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
