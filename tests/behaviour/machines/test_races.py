"""Calls at the same moment on a real database: one of two outcomes each time, never half of each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.behaviour.machines.harness import HastyClock, Place

from keel.refusal import Refusal
from rift.boxes import actions as boxes
from rift.boxes import jobs as box_jobs
from rift.boxes.model import Box
from rift.commands import actions as commands
from rift.commands.model import Answer
from rift.deps import Deps
from rift.pools import actions as pools
from rift.tasks import actions as tasks
from rift.tasks.model import Lease

ROUNDS = range(5)


def codes(results: list[Any]) -> list[str]:
    return [one.code for one in results if isinstance(one, Refusal)]


def later(place: Place, **by: float) -> Deps:
    """Another process of the same Rift, whose clock is that much ahead."""
    return replace(place.deps, clock=HastyClock(place.clock.now() + timedelta(**by)))


async def is_alive(place: Place, handle: str) -> bool:
    return not isinstance(await boxes.list_boxes(place.deps, place.act(), handle), Refusal)


async def open_of(place: Place, box: str) -> list[dict[str, Any]]:
    rows = await place.rows(
        "SELECT box, n, state, reason FROM commands WHERE state IN ('queued', 'claimed') ORDER BY n"
    )
    return [row for row in rows if row["box"] == box]


async def at_once(first: bool, one: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> tuple[Any, Any]:
    """Both at the same moment, now the one a step ahead and now the other; their results in the order given."""
    if first:
        got = await asyncio.gather(one, other)
        return got[0], got[1]
    got = await asyncio.gather(other, one)
    return got[1], got[0]


async def test_of_twenty_takeovers_at_once_one_handle_is_alive(rift: Place) -> None:
    task = await rift.open_task()
    got = await asyncio.gather(*(tasks.attach(rift.deps, rift.act(), task.task.id, True) for _ in range(20)))
    handles = [lease.handle for lease in got if isinstance(lease, Lease)]
    assert len(set(handles)) == 20
    alive = [handle for handle in [task.handle, *handles] if await is_alive(rift, handle)]
    assert len(alive) == 1
    assert alive[0] != task.handle


async def test_of_twenty_attaches_to_a_free_task_one_wins_and_the_others_learn_who(rift: Place) -> None:
    task = await rift.open_task()
    await tasks.release(rift.deps, rift.act(), task.handle)
    callers = [replace(rift.ada, client=f"Client {n}") for n in range(20)]
    got = await asyncio.gather(*(tasks.attach(rift.deps, rift.act(who), task.task.id, False) for who in callers))
    (won,) = [lease for lease in got if isinstance(lease, Lease)]
    losers = [one for one in got if isinstance(one, Refusal)]
    assert codes(losers) == ["task_in_use"] * 19
    assert {loser.facts["holder"] for loser in losers} == {won.task.holder}
    assert await is_alive(rift, won.handle)


async def test_of_twenty_claims_three_get_the_warm_boxes_and_no_box_is_given_twice(rift: Place) -> None:
    warm = {box.id for box in await rift.warm(3)}
    handles = [(await rift.open_task()).handle for _ in range(20)]
    got = await asyncio.gather(*(rift.new_box(handle) for handle in handles))
    given = [box for box in got if isinstance(box, Box)]
    assert len({box.id for box in given}) == 20
    assert {box.id for box in given} >= warm
    assert {box.id for box in given if box.state == "running"} == warm
    assert sorted(box.number for box in given) == list(range(1, 21))
    assert [box.task for box in given] == [handle.partition(".")[0] for handle in handles]


async def test_ten_fills_at_once_make_what_is_missing_and_no_more(rift: Place) -> None:
    await rift.watch(4)
    await rift.equip()
    steps = await asyncio.gather(*(pools.fill(rift.deps, rift.repo.id, "main") for _ in range(10)))
    assert sum(step.make for step in steps) == 4
    assert sorted(box.number for box in await rift.all_boxes()) == [1, 2, 3, 4]


async def test_fills_and_claims_at_once_leave_the_pool_as_it_is_wanted(rift: Place) -> None:
    await rift.warm(3)
    handles = [(await rift.open_task()).handle for _ in range(4)]
    await asyncio.gather(
        *(rift.new_box(handle) for handle in handles),
        *(pools.fill(rift.deps, rift.repo.id, "main") for _ in range(4)),
    )
    await rift.work()
    living = [box for box in await rift.all_boxes() if box.state in ("starting", "running")]
    assert sum(box.task is None for box in living) == 3
    assert sum(box.task is not None for box in living) == 4


@pytest.mark.parametrize("turn", ROUNDS)
async def test_a_call_at_the_fourth_hour_goes_on_or_finds_the_task_closed(rift: Place, turn: int) -> None:
    task = await rift.open_task()
    rift.clock.advance(timedelta(hours=4, seconds=-1))
    got, closed = await at_once(
        turn % 2 == 0, rift.new_box(task.handle), tasks.close_quiet(later(rift, seconds=2 + turn))
    )
    after = await rift.task(task.task.id)
    await rift.work()
    living = [box for box in await rift.all_boxes() if box.state != "destroyed"]
    if isinstance(got, Refusal):
        assert (got.code, closed, after.status, living) == ("task_closed", [task.task.id], "closed", [])
    else:
        assert (closed, after.status, after.activity_at) == ([], "open", rift.clock.now())
        assert [box.id for box in living] == [got.id]


@pytest.mark.parametrize("turn", ROUNDS)
async def test_a_box_asked_for_while_its_task_closes_is_destroyed_or_never_made(rift: Place, turn: int) -> None:
    task = await rift.open_task()
    got, closed = await at_once(turn % 2 == 0, rift.new_box(task.handle), rift.close_task(task.handle))
    assert not isinstance(closed, Refusal)
    if isinstance(got, Refusal):
        assert got.code == "task_closed"
        assert await rift.all_boxes() == []
    await rift.work()
    assert {box.state for box in await rift.all_boxes()} <= {"destroyed"}


@pytest.mark.parametrize("turn", ROUNDS)
async def test_a_command_at_the_moment_of_a_parking_stops_it_or_ends_it(rift: Place, turn: int) -> None:
    task = await rift.open_task()
    box = await rift.running_box(task.handle)
    ran, parked = await at_once(turn % 2 == 0, rift.bash(task.handle, box.id), rift.suspend(task.handle, box.id))
    assert isinstance(ran, Answer)
    after = await rift.box(box.id)
    assert after.state == "running"
    assert len(await open_of(rift, box.id)) == 1
    if isinstance(parked, Refusal):
        assert (parked.code, after.epoch) == ("vm_busy", box.epoch)
    else:
        assert after.epoch == box.epoch + 2
    assert (await rift.driver.inspect(box.id)).state == "running"


@pytest.mark.parametrize("turn", ROUNDS)
async def test_a_command_at_the_moment_a_box_is_found_idle_stops_it_or_wakes_the_box(rift: Place, turn: int) -> None:
    task = await rift.open_task()
    box = await rift.running_box(task.handle)
    rift.clock.advance(timedelta(minutes=30))
    ran, _ = await at_once(turn % 2 == 0, rift.bash(task.handle, box.id), box_jobs.park(rift.deps, box.id))
    assert isinstance(ran, Answer)
    after = await rift.box(box.id)
    assert (after.state, after.used_at) == ("running", rift.clock.now())
    assert after.epoch in (box.epoch, box.epoch + 2)
    assert (await rift.driver.inspect(box.id)).state == "running"


@pytest.mark.parametrize("turn", ROUNDS)
async def test_a_command_at_the_moment_of_a_destruction_never_runs(rift: Place, turn: int) -> None:
    task = await rift.open_task()
    box = await rift.running_box(task.handle)
    agent = rift.agent(box.id)
    ran, gone = await at_once(turn % 2 == 0, rift.bash(task.handle, box.id), rift.destroy(task.handle, box.id))
    assert isinstance(gone, Box)
    assert await open_of(rift, box.id) == []
    assert await rift.poll(agent) is None
    if isinstance(ran, Refusal):
        assert ran.code == "vm_gone"
        assert await rift.rows("SELECT n FROM commands") == []
    else:
        assert await rift.rows("SELECT state, reason FROM commands") == [{"state": "unrun", "reason": "box destroyed"}]


async def test_of_ten_commands_at_once_four_are_queued_and_the_others_name_them(rift: Place) -> None:
    task = await rift.open_task()
    box = await rift.running_box(task.handle)
    got = await asyncio.gather(*(rift.bash(task.handle, box.id) for _ in range(10)))
    assert codes(list(got)) == ["vm_full"] * 6
    queued = sorted(one.report.id for one in got if isinstance(one, Answer))
    assert queued == [f"{box.id}.{n}" for n in (1, 2, 3, 4)]
    for one in got:
        if isinstance(one, Refusal):
            assert all(id in one.sentence for id in queued)


@pytest.mark.parametrize("turn", range(6))
async def test_a_claim_an_expiry_and_a_stop_at_once_agree_on_who_had_the_command(rift: Place, turn: int) -> None:
    task = await rift.open_task()
    box = await rift.running_box(task.handle)
    await rift.bash(task.handle, box.id)
    rift.clock.advance(timedelta(minutes=10, seconds=-1))
    three: list[Coroutine[Any, Any, Any]] = [
        rift.poll(rift.agent(box.id)),
        commands.expire(later(rift, seconds=2)),
        rift.stop(task.handle, f"{box.id}.1"),
    ]
    order = list(itertools.permutations(range(3)))[turn]
    given = dict(zip(order, await asyncio.gather(*(three[which] for which in order)), strict=True))
    work = given[0]
    assert work is not None
    (row,) = await rift.rows("SELECT state, stop_wanted, incarnation FROM commands")
    if work.commands:
        assert (row["state"], row["incarnation"]) == ("claimed", 1)
    else:
        assert row["state"] == "unrun"
    again = await rift.poll(rift.agent(box.id), *(one["n"] for one in work.commands))
    assert again is not None
    assert again.commands == ()
    assert again.stops == ((1,) if row["stop_wanted"] else ())
