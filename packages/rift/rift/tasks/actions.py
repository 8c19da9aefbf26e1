"""What is done with tasks. Each public function is one transaction with its record, or a part of another's."""

from __future__ import annotations

from dataclasses import replace

from keel import jobs
from keel.db import Tx
from keel.ids import digest
from keel.refusal import Refusal
from rift.audit import Act, Row, audited, note
from rift.deps import Deps
from rift.names import TASK_PREFIX
from rift.people import actions as people
from rift.people.model import Caller
from rift.tasks import refusals, store
from rift.tasks.decide import Attach, Expired, decide_access, decide_attach, decide_open, readable
from rift.tasks.model import Clocks, Handle, Lease, Task

NAME_MOST = 200
"""The longest name of a task, in characters."""


async def open_task(deps: Deps, act: Act, name: str) -> Lease | Refusal:
    """Open a task and hold it, if the person has not too many. Source: rift_task_new."""
    async with audited(deps, act) as (tx, row):
        kept = readable(name)
        if not kept or len(kept) > NAME_MOST:
            return row.said(refusals.bad_name(NAME_MOST))
        await store.lock_owner(tx, act.caller.user)
        full = decide_open(await store.open_of(tx, act.caller.user), deps.settings.tasks.per_person, deps.clock.now())
        if full is not None:
            return row.said(full)
        now, secret = deps.clock.now(), deps.ids.token()
        task = Task(
            id="",
            owner=act.caller.user,
            name=kept,
            status="open",
            secret_sha256=digest(secret),
            holder=act.caller.label,
            held_since=now,
            activity_at=now,
            created_at=now,
            closed_at=None,
        )
        inserted = False
        while not inserted:
            task = replace(task, id=TASK_PREFIX + deps.ids.short())
            inserted = await store.insert(tx, task)
        row.task = task.id
        await tx.notify(topic(task.owner))
        return row.said(Lease(task, secret))


async def attach(deps: Deps, act: Act, text: str, takeover: bool) -> Lease | Refusal:
    """Mint a fresh handle; the previous one stops working. Takes an id, and forgives a whole handle."""
    async with audited(deps, act) as (tx, row):
        handle = Handle.parse(text)
        if handle is None:
            return row.said(refusals.unknown(text[:40]))
        task = await store.find_locked(tx, handle.id)
        now = deps.clock.now()
        decision = decide_attach(task, act.caller.user, handle, takeover, now, clocks(deps))
        row.task = theirs(task, act.caller)
        if isinstance(decision, Expired):
            return row.said(await _expire(tx, deps, decision.task))
        if isinstance(decision, Refusal):
            return row.said(decision)
        return row.said(await _hold(tx, deps, act.caller, handle, decision))


async def release(deps: Deps, act: Act, text: str) -> Task | Refusal:
    """Give the lease up; the boxes are kept."""
    async with audited(deps, act) as (tx, row):
        task = await admit(tx, deps, row, act.caller, text)
        if isinstance(task, Task):
            await store.release(tx, task.id)
            await tx.notify(topic(task.owner))
        return row.said(task)


async def admit(tx: Tx, deps: Deps, row: Row, caller: Caller, text: str) -> Task | Refusal:
    """The task behind a handle, if the handle is its lease: locked until the transaction ends, its clock moved.

    A part of every call that carries a handle. The task's row is locked before any box's. A task that is too quiet
    closes here and is answered as closed.
    """
    handle = Handle.parse(text)
    if handle is None:
        return refusals.no_handle()
    task = await store.find_locked(tx, handle.id) if handle.secret_sha256 else None
    row.task = theirs(task, caller)
    now = deps.clock.now()
    decision = decide_access(task, caller.user, handle, now, clocks(deps))
    if isinstance(decision, Expired):
        return await _expire(tx, deps, decision.task)
    if isinstance(decision, Refusal):
        return decision
    assert task is not None  # an admitted handle has its task
    if decision.touch:
        await store.touch(tx, task.id, now)
    return task


async def close_in(tx: Tx, deps: Deps, task: Task) -> None:
    """Close the task and have its boxes destroyed: the job is queued by the same commit."""
    await store.close(tx, task.id, deps.clock.now())
    await tx.notify(topic(task.owner))
    await jobs.defer(tx, "boxes.close", lock=f"task:{task.id}", task=task.id)


async def open_of(tx: Tx, caller: Caller) -> list[Task]:
    """The caller's open tasks, the longest open first."""
    return await store.open_of(tx, caller.user)


async def close_quiet(deps: Deps) -> list[str]:
    """Upkeep: close every task that was quiet for too long, each in a transaction of its own. The ids closed."""
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        quiet = await store.quiet_since(tx, now - clocks(deps).close)
    closed = []
    for id in quiet:
        async with deps.db.tx() as tx:
            task = await store.find_locked(tx, id)
            if task and task.status == "open" and task.quiet(deps.clock.now()) >= clocks(deps).close:
                await _close_itself(tx, deps, task)
                closed.append(id)
    return closed


async def close_put_out(deps: Deps) -> list[str]:
    """Upkeep: close the tasks of people who were put out, each in a transaction of its own. The ids closed."""
    closed: list[str] = []
    while True:
        async with deps.db.tx() as tx:
            left = await store.of_put_out(tx)
        if not left:
            return closed
        for id in left:
            async with deps.db.tx() as tx:
                task = await store.find_locked(tx, id)
                if task and task.status == "open" and await people.put_out(tx, task.owner):
                    await close_in(tx, deps, task)
                    why = {"why": "its owner was put out"}
                    await note(tx, deps, "task closed", task=task.id, box=None, arguments=why)
                    closed.append(id)


def clocks(deps: Deps) -> Clocks:
    """The two clocks as set."""
    return Clocks(lease=deps.settings.tasks.quiet_lease, close=deps.settings.tasks.quiet_close)


def topic(owner: str) -> str:
    """What is notified when a person's tasks, their holders or the boxes in them become others."""
    return f"person:{owner}"


def theirs(task: Task | None, caller: Caller) -> str | None:
    """The task's id for the record, where it is the caller's own."""
    return task.id if task is not None and task.owner == caller.user else None


async def _hold(tx: Tx, deps: Deps, caller: Caller, handle: Handle, decision: Attach) -> Lease | Refusal:
    secret = deps.ids.token()
    if decision.touch:
        await store.touch(tx, handle.id, deps.clock.now())
    held = await store.hold(tx, handle.id, decision.replaces, digest(secret), caller.label, deps.clock.now())
    if held is None:
        return refusals.unknown(handle.id)
    await tx.notify(topic(held.owner))
    return Lease(held, secret)


async def _expire(tx: Tx, deps: Deps, task: Task) -> Refusal:
    await _close_itself(tx, deps, task)
    return refusals.closed(task)


async def _close_itself(tx: Tx, deps: Deps, task: Task) -> None:
    """What the clock does is recorded as what a call does."""
    await close_in(tx, deps, task)
    await note(tx, deps, "task closed itself", task=task.id, box=None)
