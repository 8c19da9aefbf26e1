"""The sweeper: each expired task once, whoever else sweeps or ends tasks at the same moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from tests.behaviour.onbe.ends.rows import Rows, many

from keel.db import Database
from keel.ids import digest
from onbe.tasks import actions as tasks
from onbe.tasks import jobs, store


@asynccontextmanager
async def replica(rows: Rows) -> AsyncIterator[Rows]:
    """Another process of the same Onbe: connections of its own, the same database."""
    async with Database(rows.db.url) as db:
        yield Rows(db, rows.clock)


async def test_a_task_expires_when_its_time_is_over_and_not_before(rows: Rows) -> None:
    task = await rows.task(life=10, renewals=4)
    rows.clock.advance(9.999)
    await jobs.tick(rows.deps)
    assert await rows.ends() == {task: (None, None)}
    rows.clock.advance(0.001)
    await jobs.tick(rows.deps)
    assert await rows.ends() == {task: ("expired", None)}
    (told,) = await rows.records()
    assert (told["action"], told["actor"], told["via"], told["task"], told["outcome"]) == (
        "task.expired", "ada", "scribe", task, "ok",
    )  # fmt: skip
    assert told["arguments"] == {"by": "sweeper", "renewals": 4}


async def test_an_expiry_is_of_the_instant_when_the_time_was_over_however_late_the_sweeper_comes(rows: Rows) -> None:
    await rows.task(life=10)
    rows.clock.advance(3600)
    await jobs.tick(rows.deps)
    (row,) = await rows.rows("SELECT ended_at FROM tasks")
    assert row["ended_at"] == rows.at(10)


async def test_what_was_revoked_before_it_expired_stays_revoked(rows: Rows) -> None:
    task = await rows.task(life=10)
    await tasks.end_task(rows.deps, task)
    rows.clock.advance(20)
    await jobs.tick(rows.deps)
    assert await rows.ends() == {task: ("revoked", "task_killed")}
    assert await rows.records("task.expired") == []


@pytest.mark.parametrize("turn", range(3))
async def test_of_two_sweepers_over_a_thousand_tasks_each_task_is_marked_and_recorded_once(
    rows: Rows, turn: int
) -> None:
    await many(rows, 1000)
    rows.clock.advance(20)
    async with replica(rows) as other:
        counts = await asyncio.gather(tasks.sweep(rows.deps), tasks.sweep(other.deps))
        rest = await tasks.sweep(rows.deps)
    assert sum(counts) + rest == 1000
    told = await rows.records()
    assert Counter(row["action"] for row in told) == {"task.expired": 1000}
    assert {row["task"]: row["arguments"]["renewals"] for row in told} == {
        f"task_ada{n:020}": n for n in range(1, 1001)
    }
    assert {end for end, _ in (await rows.ends()).values()} == {"expired"}


@pytest.mark.parametrize("turn", range(5))
async def test_revoking_while_the_sweeper_runs_ends_every_task_once_and_for_one_reason(rows: Rows, turn: int) -> None:
    await many(rows, 300, agent="a", sponsor="ada", life=10)
    await many(rows, 300, agent="a", sponsor="bob", life=1000)
    await many(rows, 300, agent="b", sponsor="cyd", life=10)
    rows.clock.advance(20)
    async with replica(rows) as other:
        await asyncio.gather(
            tasks.sweep(rows.deps),
            tasks.end_tasks_of_agent(other.deps, "a"),
            tasks.sweep(other.deps),
            tasks.end_tasks_of_sponsor(rows.deps, "cyd"),
            tasks.block(other.deps, "bob", "gone"),
        )
        await tasks.sweep(rows.deps)
    ends = await rows.ends()
    assert Counter((id.removeprefix("task_")[:3], end) for id, (end, _) in ends.items()) == {
        ("ada", "expired"): 300, ("bob", "revoked"): 300, ("cyd", "expired"): 300,
    }  # fmt: skip
    told = await rows.records("task.expired", "task.revoked")
    assert {(row["task"], row["action"]) for row in told} == {(id, f"task.{end}") for id, (end, _) in ends.items()}
    assert len(told) == len(ends)


async def test_a_sweeper_passes_over_a_task_that_somebody_holds_and_finds_it_later(rows: Rows) -> None:
    held, free = await rows.task(life=10), await rows.task(life=10)
    rows.clock.advance(20)
    async with rows.holding("SELECT FROM tasks WHERE id = %(id)s FOR NO KEY UPDATE", id=held):
        assert await tasks.sweep(rows.deps) == 1
        assert await rows.ends() == {held: (None, None), free: ("expired", None)}
    assert await tasks.sweep(rows.deps) == 1


async def test_an_end_counts_the_renewal_that_was_committed_while_it_waited(rows: Rows) -> None:
    task = await rows.task(renewals=2)
    async with rows.holding("UPDATE tasks SET renewals = renewals + 1 WHERE id = %(id)s", id=task):
        ending = asyncio.create_task(tasks.end_task(rows.deps, task))
        await rows.waiting(1)
    await ending
    (told,) = await rows.records("task.revoked")
    assert told["arguments"]["renewals"] == 3


async def test_an_ended_task_is_kept_for_its_time_and_then_forgotten_from_the_leaves_up(rows: Rows) -> None:
    root = await rows.task("a", life=100)
    child = await rows.task("b", parent=root, depth=2, life=100)
    alive = await rows.task("a", life=90 * 86400)
    rows.clock.advance(200)
    await jobs.tick(rows.deps)
    rows.clock.advance(timedelta(days=30) - timedelta(seconds=150))
    await jobs.tick(rows.deps)
    assert set(await rows.ends()) == {root, child, alive}
    rows.clock.advance(100)
    await jobs.tick(rows.deps)
    assert set(await rows.ends()) == {root, alive}
    await jobs.tick(rows.deps)
    assert set(await rows.ends()) == {alive}
    assert len(await rows.records("task.expired")) == 2


async def test_a_grant_of_a_task_is_found_by_its_digest_alone(rows: Rows) -> None:
    task = await rows.task()
    async with rows.db.look() as tx:
        found = await store.find_by_grant(tx, digest(f"grant of {task}"))
        assert found is not None
        assert found.id == task
        assert await store.find_by_grant(tx, digest("another")) is None
