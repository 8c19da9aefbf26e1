"""A page of the audit is found by indexes: what Postgres reads for it does not grow with the ledger, or with a team."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from tests.unit.records.world import World, signed_in

from keel.ledger import have_months
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.people import actions as people
from rift.records import actions
from rift.records.decide import reader_of
from rift.records.model import Asked, Place

RECORDS = 200_000
FILL = """
    INSERT INTO ledger (at, actor, via, action, task, box, outcome, duration_us, arguments)
    SELECT %(now)s::timestamptz - interval '60 days' * (1 - n::float8 / %(records)s),
           CASE WHEN n %% 10 = 0 THEN %(ada)s WHEN n %% 10 < 6 THEN %(bob)s ELSE %(cyd)s END, 'mcp:Claude',
           CASE WHEN n %% 500 = 0 THEN 'rift_vm_new' ELSE 'rift_bash' END,
           CASE WHEN n %% 10 = 0 THEN 'task_ada' ELSE 'task_' || n / 1000 END,
           CASE WHEN n %% 10 < 6 THEN 'b-red' WHEN n %% 10 < 9 THEN 'b-blue' END,
           CASE WHEN n %% 97 = 0 THEN 'task_held' ELSE 'ok' END, 1000, '{}'
    FROM generate_series(1, %(records)s) n
"""
"""Sixty days of three people: more than half of it in boxes of red."""


@pytest.fixture
async def crowded(deps: Deps, database: FreshDatabase, clock: FakeClock) -> World:
    """Ada is admin of red, which has most of the records, and of ten teams that have none."""
    clock.advance(timedelta(days=90))
    world = World(deps)
    for name in ("ada", "bob", "cyd"):
        await world.person(name)
    await world.person("root", admin=True)
    await world.team("red", ada="admin", bob="member")
    await world.team("blue", cyd="admin")
    for number in range(10):
        await world.team(f"small{number}", ada="admin")
    await world.task("task_ada", "ada")
    await world.task("task_77", "bob")
    await world.box("b-red", "red", "task_77")
    await world.box("b-blue", "blue")
    async with deps.db.tx() as tx:
        await have_months(tx, clock.now())
    facts = {"now": clock.now(), "records": RECORDS, **{who: one.id for who, one in world.people.items()}}
    with psycopg.connect(database.owner, autocommit=True) as owner:
        for back in (30, 60):
            owner.execute("SELECT ledger_month(%(now)s::timestamptz - make_interval(days => %(back)s))",
                          {**facts, "back": back})  # fmt: skip
        owner.execute(FILL, facts)
        owner.execute("VACUUM ANALYZE ledger, ledger_readers, boxes, tasks, repos")
    return world


class Explained:
    """A transaction that asks how a statement was run, and adds up what it read; it gives no rows."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.blocks, self.wasted, self.milliseconds = 0, 0.0, 0.0

    async def tuples(self, sql: str, params: Any) -> list[Any]:
        row = await self.tx.row(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
        plan = row["QUERY PLAN"][0]
        self.blocks += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        self.wasted += wasted(plan["Plan"])
        self.milliseconds += plan["Execution Time"]
        return await self.tx.tuples(sql, params)  # type: ignore[no-any-return]  # as it is


def wasted(plan: dict[str, Any]) -> float:
    """How many rows were read and thrown away."""
    here = plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]
    return float(here) + sum(wasted(part) for part in plan.get("Plans", ()))


async def test_a_page_reads_what_it_shows_and_a_bounded_part_of_the_rest(crowded: World) -> None:
    now = crowded.deps.clock.now()
    middle, hour = Place(now - timedelta(days=33), 1), timedelta(hours=1)
    bob = crowded.people["bob"].id
    found = {
        "all": Asked(),
        "all, from the middle": Asked(before=middle),
        "an hour long ago": Asked(since=now - 40 * 24 * hour, until=now - 40 * 24 * hour + hour),
        "a task of ada's": Asked(task="task_ada"),
        "a task in boxes of ada's": Asked(task="task_77"),
        "a box of ada's": Asked(box="b-red"),
        "in an hour": Asked(action="x", since=now - hour, until=now),
    }
    searched = {
        "a task of others": Asked(task="task_99"),
        "a box of others": Asked(box="b-blue"),
        "a person": Asked(actor=bob),
        "a person who never came": Asked(actor="user_nobody"),
        "what is refused": Asked(outcome="refused"),
        "a tool that is rare": Asked(action="rift_vm_new"),
        "a tool that is none": Asked(action="rift_nothing"),
    }
    slow: dict[str, Any] = {}
    for person in ("ada", "cyd", "root"):
        who = signed_in(crowded.people[person])
        async with crowded.deps.db.look() as tx:
            reader = reader_of(who, await people.memberships(tx, who.user))
            for name, asked in {**found, **searched}.items():
                told = Explained(tx)
                await actions._page(_Both(tx, told), reader, asked)  # type: ignore[arg-type]  # stands in
                most = 1000 if person == "ada" and name in found else 6_000  # of 200,000
                if told.blocks > most or told.wasted > most:
                    slow[f"{name}, by {person}"] = (told.blocks, told.wasted, told.milliseconds)
    assert not slow, slow


class _Both:
    """What finds pages is explained; the rest is done as it is."""

    def __init__(self, tx: Any, explained: Explained) -> None:
        self.tuples = explained.tuples
        self.row, self.rows = tx.row, tx.rows
