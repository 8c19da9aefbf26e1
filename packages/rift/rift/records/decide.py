"""Who may read which record, and where a page of them is looked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal
from urllib.parse import urlencode

from rift.names import BOX_PREFIX
from rift.people.model import Caller, Membership
from rift.records.model import Asked, Erasable, Reader, Sources
from rift.secrecy import without_secrets

Route = Literal["task", "box", "all"]
"""By which index a page is found: a task's records, a box's, or all that the reader may read."""
_COMMAND = re.compile(rf"({BOX_PREFIX}[0-9a-f]{{24}})\.\d+")
VM_MOST = 254
"""The longest text that the page takes for a box."""


def reader_of(caller: Caller, places: Iterable[Membership]) -> Reader:
    """What somebody reads, by their places in organizations at this moment: those in which they are an admin count."""
    return Reader(caller.user, tuple(sorted(place.org for place in places if place.admin)), caller.admin)


def may_read(reader: Reader, actor: str | None, noted: Collection[str], task: str | None, box: str | None) -> bool:
    """Whether somebody may read a record (contract: rift_audit: your own tasks, and your organizations').

    What they did themselves; what is noted for them or for an organization that they are an admin of (`noted`); and
    for a platform admin what is of no person, no task and no box: what the operator did at the terminal. Of other
    people a platform admin reads no more than anybody: `rift audit`, on the server, reads everything.
    """
    if actor == reader.user or any(name in noted for name in reader.names):
        return True
    return reader.nobodys and actor is None and task is None and box is None


def route(asked: Asked, *, in_task: bool, in_box: bool) -> Route:
    """By which index: a task's or a box's own only where the reader has a stake in it.

    Whoever has none could otherwise learn by the time it takes how much happened there.
    """
    if asked.box is not None and in_box:
        return "box"
    return "task" if asked.task is not None and in_task else "all"


def sources(reader: Reader, asked: Asked) -> Sources:
    """Where the records can be that are asked for."""
    mine = asked.actor == reader.user
    return Sources(
        own=mine or asked.actor is None,
        names=() if mine else reader.names,
        nobodys=reader.nobodys and asked.actor is None and asked.task is None and asked.box is None,
    )


def decide_erase(reader: Reader, owner: str | None, boxes: Iterable[tuple[str, str]]) -> Erasable | None:
    """Which texts of a task somebody may erase: its owner all, an admin those of their organization's boxes.

    `owner` is the task's, None where there is no such task; `boxes` are its boxes, each with its organization. None:
    there is nothing there that they may erase.
    """
    if owner == reader.user:
        return Erasable(whole=True)
    theirs = [(box, org) for box, org in boxes if org in reader.orgs]
    if not theirs:
        return None
    orgs = {org for _, org in theirs}
    return Erasable(False, tuple(box for box, _ in theirs), orgs.pop() if len(orgs) == 1 else None)


def audit_link(address: str, task: str | None, vm: str | None) -> str:
    """The Audit page's address with its filter. `task` is an id, never a handle: the address is shown and shared."""
    asked = {name: value for name, value in (("task", task), ("vm", vm)) if value}
    return f"{address}/app/audit" + (f"?{urlencode(asked)}" if asked else "")


def box_of(text: str) -> str:
    """A box's id or name as the address carries it. The id of a command of the box is forgiven, a secret left out."""
    vm = without_secrets(text.strip())[:VM_MOST]
    command = _COMMAND.fullmatch(vm)
    return command[1] if command else vm
