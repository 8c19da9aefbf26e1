"""What is done with boxes: claim, list, suspend, destroy, and close the task that holds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import structlog

from keel import jobs
from keel.db import Tx
from keel.refusal import Refusal
from keel.telemetry import tracing
from rift import meters
from rift.audit import Act, Row, audited, note
from rift.boxes import refusals, store
from rift.boxes.decide import Cold, Park, decide_again, decide_cold, decide_pick, decide_suspend, decide_warm, doing
from rift.boxes.model import (
    Box,
    BoxLine,
    Closed,
    Most,
    OpenCommand,
    PersonsUse,
    TaskLine,
    TaskView,
    smallest_free,
    stem,
)
from rift.deadline import Deadline
from rift.deps import Deps
from rift.drivers.boxes.protocol import DriverError
from rift.environments import actions as environments
from rift.hosts import actions as hosts
from rift.hosts.model import Shortage
from rift.names import BOX_PREFIX, CLOSE_WAITS, NEW_BOX_WAITS
from rift.people.model import Caller
from rift.repos import actions as repos
from rift.repos.model import Repo, WatchedHead
from rift.tasks import actions as tasks
from rift.tasks.model import Task

log = structlog.get_logger()

WARM_KEEPS = 2
"""Warm boxes are made only while so many times the reserves are free: the last room is for people."""
TRIES = 3
"""How often the agent of a box that does not stay up is started."""
STEADY = timedelta(minutes=2)
"""An agent that was heard for so long after its start has stayed up."""

Progress = Callable[[str], Awaitable[None]]
"""Told every few seconds that a call still waits, and for what."""


async def new_box(deps: Deps, act: Act, task: str, repo: str, ref: str, progress: Progress) -> Box | Refusal:
    """Claim a warm box at the watched ref's head, or start one; wait up to 30 s for it to run. Source: rift_vm_new.

    Returns the box as it is then: `running`, still `starting`, or `failed` with the whole reason.
    """
    deadline, began = Deadline(deps.clock, NEW_BOX_WAITS), deps.clock.now()
    async with audited(deps, act) as (tx, row):
        held = await tasks.admit(tx, deps, row, act.caller, task)
        if isinstance(held, Refusal):
            return row.said(held)
        head = await repos.find_watched(tx, deps, act.caller, repo, ref)
        if isinstance(head, Refusal):
            return row.said(head)
        box = await _claim(tx, deps, act.caller, held.id, head)
        if isinstance(box, Refusal):
            return row.said(box)
        row.box = box
        await repos.pool_moved(tx, head.repo.id, head.ref)
        await tx.notify(tasks.topic(act.caller.user))
    made = await _until_up(deps, box, deadline, progress)
    if made.state == "running":
        start = "warm" if made.created_at < began else "cold"
        meters.CLAIM_SECONDS.labels(start).observe(deadline.seconds - deadline.left())
    return made


async def _claim(tx: Tx, deps: Deps, caller: Caller, task: str, head: WatchedHead) -> str | Refusal:
    """A box for a task within what there may be: a warm one, else one that starts, for which a warm one of another ref
    may have to go. Its id.
    """
    await store.lock_room(tx)
    room = await store.room(tx, head.repo.org, caller.user)
    most, short = await _most(tx, deps)
    if room.person >= most.person:
        return refusals.too_many(await store.of_person(tx, caller.user), task, most.person)
    box = await store.claim_warm(tx, head.repo.id, head.ref, head.commit, task, deps.clock.now())
    if box is not None:
        return box
    decision = decide_cold(room, most, short, head.repo.org, await store.warm(tx))
    if decision.gives_way is not None:
        log.info("box.gives_way", box=decision.gives_way)
        await drain(tx, deps, decision.gives_way)
    if isinstance(decision, Cold):
        return await _make(tx, deps, head.repo.id, head.repo.name, head.ref, head.commit, task)
    theirs = await store.of_person(tx, caller.user)
    if decision.bound == "organization":
        return refusals.organization_full(head.org, room.organization, most.organization, theirs, task)
    if short is not None:
        return refusals.host_short(short, theirs, task, decision.gives_way is not None)
    return refusals.host_holds(room.host, most.host or room.host, theirs, task)


async def make_warm(tx: Tx, deps: Deps, repo: Repo, ref: str, commit: str, wanted: int) -> int:
    """Make warm boxes at a commit, as many as are wanted and may be. How many were made."""
    await store.lock_room(tx)
    most, short = await _most(tx, deps, WARM_KEEPS)
    making = decide_warm(wanted, await store.room(tx, repo.org, None), most, short)
    for _ in range(making):
        await _make(tx, deps, repo.id, repo.name, ref, commit, None)
    return making


async def _most(tx: Tx, deps: Deps, times: int = 1) -> tuple[Most, Shortage | None]:
    host, short = await hosts.room(tx, deps, times)
    boxes = deps.settings.boxes
    return Most(boxes.per_person, boxes.per_organization, host), short


async def _make(tx: Tx, deps: Deps, repo: str, short: str, ref: str, commit: str, task: str | None) -> str:
    """Add a box that starts at a commit, in a task or warm; its start is queued by the same commit. The box's id.

    `repo` is the repository's id, `short` its name for people.
    """
    number = smallest_free(await store.numbers(tx, repo, ref))
    id, name = BOX_PREFIX + deps.ids.hex(24), f"{stem(short, ref)}-{number}"
    await store.insert(tx, id, name, number, repo, ref, commit, task, deps.clock.now())
    await jobs.defer(tx, "boxes.start", lock=f"box:{id}", once=f"start:{id}", box=id)
    return id


async def list_boxes(deps: Deps, act: Act, task: str) -> list[BoxLine] | Refusal:
    """The task's boxes that are not destroyed, each with its open commands. Source: rift_vm_ls."""
    async with audited(deps, act) as (tx, row):
        held = await tasks.admit(tx, deps, row, act.caller, task)
        if isinstance(held, Refusal):
            return row.said(held)
        boxes = [await _told(tx, deps, box) for box in await store.of_tasks(tx, [held.id])]
        open = await store.open_commands(tx, [box.id for box in boxes])
        return row.said([BoxLine(box, tuple(one for one in open if one.box == box.id)) for box in boxes])


async def list_tasks(deps: Deps, act: Act) -> list[TaskLine]:
    """The caller's open tasks with their boxes. Source: rift_task_ls."""
    async with audited(deps, act) as (tx, row):
        open = await tasks.open_of(tx, act.caller)
        boxes = await store.of_tasks(tx, [task.id for task in open])
        return row.said([TaskLine(task, tuple(box for box in boxes if box.task == task.id)) for task in open])


async def look(deps: Deps, caller: Caller) -> list[TaskView]:
    """The caller's open tasks, their boxes, and what runs in them, in three statements. No record: it is a page's."""
    async with deps.db.look(caller.user) as tx:
        open = await tasks.open_of(tx, caller)
        boxes = await store.of_tasks(tx, [task.id for task in open])
        commands = await store.open_commands(tx, [box.id for box in boxes])
    lines = [(box.task, BoxLine(box, tuple(one for one in commands if one.box == box.id))) for box in boxes]
    return [TaskView(task, tuple(line for of, line in lines if of == task.id)) for task in open]


async def close_task(deps: Deps, act: Act, task: str, progress: Progress) -> Closed | Refusal:
    """Close the task; its boxes are destroyed. Answers when they are gone, or after 20 s. Source: rift_task_close."""
    deadline = Deadline(deps.clock, CLOSE_WAITS)
    async with audited(deps, act) as (tx, row):
        held = await tasks.admit(tx, deps, row, act.caller, task)
        if isinstance(held, Refusal):
            return row.said(held)
        await tasks.close_in(tx, deps, held)
        boxes = await store.of_tasks(tx, [held.id])
        for box in boxes:
            await destroy_in(tx, deps, box)
    still = await _until_gone(deps, [box.id for box in boxes], deadline, progress)
    return Closed(held, tuple(boxes), still)


async def destroy(deps: Deps, act: Act, task: str, vm: str, progress: Progress) -> Box | Refusal:
    """Destroy one box, with its checkout and its state. Waits at most 20 s. Source: rift_vm_destroy."""
    deadline = Deadline(deps.clock, CLOSE_WAITS)
    async with audited(deps, act) as (tx, row):
        box = await reach(tx, deps, row, act.caller, task, vm)
        if isinstance(box, Refusal):
            return row.said(box)
        await destroy_in(tx, deps, box)
    await _until_gone(deps, [box.id], deadline, progress)
    return await _now(deps, box.id)


async def suspend(deps: Deps, act: Act, task: str, vm: str) -> Box | Refusal:
    """Park a box that has no open command; its files are flushed first. Source: rift_vm_suspend."""
    async with audited(deps, act) as (tx, row):
        box = await reach(tx, deps, row, act.caller, task, vm)
        if isinstance(box, Refusal):
            return row.said(box)
        decision = decide_suspend(box, await store.open_commands(tx, [box.id]))
        if isinstance(decision, Park) and decision.needed:
            await store.power(tx, box.id, "parked", deps.clock.now())
            await tx.notify(f"agent:{box.id}")
        row.said(decision)
    if isinstance(decision, Refusal):
        return decision
    return await apply_power(deps, box.id)


async def reach(tx: Tx, deps: Deps, row: Row, caller: Caller, task: str, vm: str) -> Box | Refusal:
    """The box that a call under a task's handle means: the task's row is locked, then the box's."""
    held = await tasks.admit(tx, deps, row, caller, task)
    return held if isinstance(held, Refusal) else await _pick(tx, row, caller, held, vm)


async def _pick(tx: Tx, row: Row, caller: Caller, task: Task, vm: str) -> Box | Refusal:
    """The box of the task that an id or a name means, locked, if the caller is still in its organization."""
    found = await store.find_for(tx, vm, task.id, caller.user) if vm.isprintable() else None
    if found is None:  # not an id: a name, or nothing
        chosen = decide_pick(vm, await store.of_task(tx, task.id))
        if isinstance(chosen, Refusal):
            return chosen
        found = await store.find_for(tx, chosen.id, task.id, caller.user)
    assert found is not None  # a box's row is never deleted
    row.box = found.box.id
    return found.box if found.member else refusals.not_member(found.box)


async def destroy_in(tx: Tx, deps: Deps, box: Box) -> None:
    """Mark a box for destruction, end its commands, queue the work. Doing it again changes nothing."""
    if await store.start_destroying(tx, box.id):
        await store.end_commands(tx, box.id, "box destroyed", deps.clock.now())
        await jobs.defer(tx, "boxes.destroy", lock=f"box:{box.id}", once=f"destroy:{box.id}", box=box.id)
        await tx.notify(f"box:{box.id}", f"agent:{box.id}")


async def drain(tx: Tx, deps: Deps, id: str) -> bool:
    """Destroy a box that nobody has claimed; one that was claimed in the meantime stays. Whether it goes."""
    box = await store.find_locked(tx, id)
    if box is None or box.task is not None:
        return False
    await destroy_in(tx, deps, box)
    return True


async def apply_power(deps: Deps, id: str) -> Box:
    """Make the box's driver agree with the box's row: parked or running, under the row's epoch. The box as it is then.

    A driver that finds no agent to speak to is no error here: upkeep starts the box anew, with its files.
    """
    box = await _now(deps, id)
    try:
        if box.state == "parked":
            await deps.boxes.park(box.id, box.epoch)
        elif box.state == "running":
            await deps.boxes.resume(box.id, box.epoch)
    except DriverError as error:
        log.warning("box.power_failed", box=box.id, state=box.state, reason=error.reason)
        async with deps.db.tx() as tx:
            await jobs.defer(tx, "boxes.revive", lock=f"box:{id}", once=f"revive:{id}", box=id)
    return box


async def find(tx: Tx, id: str) -> Box:
    """A box that is known to be there, unlocked."""
    box = await store.find(tx, id)
    assert box is not None  # a box's row is never deleted
    return box


async def use(tx: Tx, deps: Deps, box: Box) -> None:
    """A call that reads or stops: it counts as use, and resumes nothing."""
    await store.used(tx, box.id, deps.clock.now())


async def use_of_people(deps: Deps, after: str | None, part: str, most: int) -> list[PersonsUse]:
    """People whose address has this part (any case), in the order they joined, with what each uses.

    `after`: the id of the last one seen, None for the beginning. Source: the People page.
    """
    now = deps.clock.now()
    async with deps.db.look("people") as tx:
        quiet = now - deps.settings.sign_in.session_quiet
        return await store.use_of_people(tx, now, quiet, most, after=after, part=part)


async def use_of(deps: Deps, person: str) -> PersonsUse | None:
    """One person (by id) with what they use. Source: the People page."""
    now = deps.clock.now()
    async with deps.db.look("people") as tx:
        found = await store.use_of_people(tx, now, now - deps.settings.sign_in.session_quiet, 1, only=person)
    return found[0] if found else None


async def of_member(deps: Deps, person: str, org: str) -> list[Box]:
    """The boxes of one organization's repositories that a person (both by id) has: what ends when they leave it."""
    async with deps.db.look(person) as tx:
        return [box for box in await store.of_person(tx, person) if box.org == org]


async def living(deps: Deps) -> int:
    """How many boxes there are that are not destroyed."""
    async with deps.db.tx() as tx:
        return len(await store.all_ids(tx))


async def open_commands(tx: Tx, box: str) -> list[OpenCommand]:
    """The commands of a box that have not ended."""
    return await store.open_commands(tx, [box])


async def came_up(tx: Tx, deps: Deps, id: str, incarnation: int) -> None:
    """The agent of this incarnation says that its jail runs: who waits is told, the head's last failure is mended."""
    await store.came_up(tx, id, incarnation, deps.clock.now())
    box = await find(tx, id)
    log.info("box.up", box=id, name=box.name, incarnation=incarnation)
    await repos.note_success(tx, box.repo, box.ref, box.commit)
    await tx.notify(f"box:{id}")


async def agent_ended(tx: Tx, deps: Deps, id: str, incarnation: int, reason: str) -> None:
    """The agent of this incarnation says that its jail could not be made, or has ended: it ends too.

    The box is started again, with its files; where that was tried often enough it has failed. A parked one starts
    when it is wanted.
    """
    box = await store.find_locked(tx, id)
    if box is None or box.incarnation != incarnation:
        return
    if box.state != "parked" and decide_again(box, TRIES, STEADY) is None:
        await fail_in(tx, deps, id, incarnation, reason)
    elif await store.ended(tx, id, incarnation) and box.state != "parked":
        step = "start" if box.state == "starting" else "revive"
        await jobs.defer(tx, f"boxes.{step}", lock=f"box:{id}", once=f"{step}:{id}", box=id)


async def put_off(tx: Tx, id: str, incarnation: int) -> None:
    """This start of a box's agent was in vain for want of what will be there again, as room on the disk.

    Upkeep tries again and again, and counts no tries.
    """
    if await store.ended(tx, id, incarnation):
        await store.tried(tx, id, 0)


async def setup_failed(tx: Tx, deps: Deps, id: str, incarnation: int, reason: str) -> None:
    """The repository's setup failed in this box, which is not made then; the head rests before there is another."""
    box = await store.find_locked(tx, id)
    if box is not None and box.state == "starting":
        await fail_in(tx, deps, id, incarnation, reason)


async def fail_in(tx: Tx, deps: Deps, id: str, incarnation: int, reason: str, *, stays: bool = False) -> None:
    """A box of this incarnation cannot go on: its commands end, who waits is told.

    One that never came up says something of its head: the watched ref remembers why, and whether it `stays` so.
    """
    box = await store.find_locked(tx, id)
    if box is None or not await store.fail(tx, id, incarnation, reason):
        return
    await store.end_commands(tx, id, f"the box failed: {reason}", deps.clock.now())
    await note(tx, deps, "box failed", task=box.task, box=id)
    if box.state == "starting":
        await repos.note_failure(tx, deps, box.repo, box.ref, box.commit, reason, stays=stays)
    await tx.notify(f"box:{id}")


async def _until_up(deps: Deps, id: str, deadline: Deadline, progress: Progress) -> Box:
    with tracing.span("wait", box=id), deps.signals.on(f"box:{id}") as signal:
        box = await _now(deps, id)
        while box.state == "starting" and deadline.left() > 0 and not signal.closing:
            await signal.wait(deadline.left())
            await progress(f"{box.name} is starting" + (f": {box.doing}" if box.doing else ""))
            box = await _now(deps, id)
        return box


async def _until_gone(deps: Deps, ids: list[str], deadline: Deadline, progress: Progress) -> tuple[str, ...]:
    with deps.signals.on(*(f"box:{id}" for id in ids)) as signal:
        while True:
            left = [id for id in ids if (await _now(deps, id)).state != "destroyed"]
            if not left or deadline.left() <= 0 or signal.closing:
                return tuple(left)
            await signal.wait(deadline.left())
            await progress(f"destroying {len(left)} of {len(ids)}")


async def _now(deps: Deps, id: str) -> Box:
    async with deps.db.tx() as tx:
        return await _told(tx, deps, await find(tx, id))


async def _told(tx: Tx, deps: Deps, box: Box) -> Box:
    """The box; one that starts, with what is being done for it."""
    if box.state != "starting":
        return box
    found = await environments.of_head(tx, box.repo, box.commit)
    return replace(box, doing=doing(box, found, deps.clock.now()))
