"""Each page is found by an index: what Postgres reads for it does not grow with the ledger, whatever fills that."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from tests.unit.onbe.records.conftest import House

from onbe.records import actions, store
from onbe.records.model import Entry, Wanted

RECORDS = 120_000
FILL = """
    INSERT INTO ledger (at, actor, via, action, task, outcome, duration_us, arguments)
    SELECT %(now)s::timestamptz - interval '20 days' * (1 - n::float8 / %(records)s),
           CASE WHEN n %% 3 = 0 THEN 'busy' ELSE 'person ' || n %% 50 END,
           CASE WHEN n %% 2 = 0 THEN 'busy' ELSE 'agent ' || n %% 20 END,
           'token.refresh', 'task_' || n / 100,
           CASE WHEN n %% 37 = 0 THEN 'scope_widened' ELSE 'ok' END, 1000, '{}'
    FROM generate_series(1, %(records)s) n
"""
"""Twenty days of 50 people and 20 agents, one of each busy."""
CROWDS = """
    INSERT INTO ledger (at, actor, via, action, task, outcome, duration_us, arguments)
    SELECT %(now)s::timestamptz - interval '1 hour' * (1 - n::float8 / 20000), 'blocked', 'mad', 'token.refresh',
           'task_hammered', CASE WHEN n = 1 THEN 'ok' WHEN n = 2 THEN 'task_ending' ELSE 'task_revoked' END, 1000, '{}'
    FROM generate_series(1, 20000) n
"""
"""And the newest hour: one agent that hammers at a task that is over; before that, one grant and one other denial."""


@pytest.fixture
async def crowded(house: House) -> House:
    house.clock.advance(timedelta(days=45))
    await actions.have_months(house.deps)
    with psycopg.connect(house.owner, autocommit=True) as owner:
        owner.execute("SELECT ledger_month(%(now)s::timestamptz - interval '20 days')", {"now": house.clock.now()})
        for statement in (FILL, CROWDS):
            owner.execute(statement.encode(), {"now": house.clock.now(), "records": RECORDS})
        owner.execute("VACUUM ANALYZE ledger")
    return house


class Explained:
    """A transaction that asks how the page's statement was run, and gives no rows."""

    def __init__(self, tx: Any) -> None:
        self.tx = tx
        self.plan: dict[str, Any] = {}

    async def tuples(self, sql: str, params: Any) -> list[Any]:
        row = await self.tx.row(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
        self.plan = row["QUERY PLAN"][0]["Plan"]
        return []


def wasted(plan: dict[str, Any]) -> float:
    """How many rows were read and thrown away."""
    here = plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]
    return float(here) + sum(wasted(part) for part in plan.get("Plans", ()))


def pages(now: datetime, middle: Entry) -> dict[str, Wanted]:
    after = (middle.at, middle.seq)
    hour = timedelta(hours=1)
    return {
        "all": Wanted(),
        "all, from the middle": Wanted(after=after),
        "an hour long ago": Wanted(since=now - 9 * 24 * hour, until=now - 9 * 24 * hour + hour),
        "a busy person": Wanted(sponsor="busy"),
        "a busy person, from the middle": Wanted(sponsor="busy", after=after),
        "a busy agent": Wanted(agent="busy"),
        "somebody who never came": Wanted(sponsor="nobody"),
        "an agent that never came": Wanted(agent="nothing"),
        "a task": Wanted(task="task_77"),
        "a pair": Wanted(sponsor="person 7", agent="agent 7"),
        "a pair of two who are busy": Wanted(sponsor="busy", agent="busy"),
        "a pair that never met": Wanted(sponsor="blocked", agent="busy"),
        "allowed": Wanted(decision="allow"),
        "denied": Wanted(decision="deny"),
        "denied, from the middle": Wanted(decision="deny", after=after),
        "a reason that nobody met": Wanted(decision="agent_disabled"),
        "a rare reason": Wanted(decision="task_ending"),
        "allowed, of a person who is denied all the time": Wanted(sponsor="blocked", decision="allow"),
        "allowed, of an agent that is denied all the time": Wanted(agent="mad", decision="allow"),
        "allowed, of a task that is hammered at": Wanted(task="task_hammered", decision="allow"),
        "denied, of a busy person": Wanted(sponsor="busy", decision="deny"),
        "denied, of a busy agent": Wanted(agent="busy", decision="deny"),
        "a rare reason of a person": Wanted(sponsor="blocked", decision="task_ending"),
        "a rare reason of an agent": Wanted(agent="mad", decision="task_ending"),
        "a reason that a busy person never met": Wanted(sponsor="busy", decision="task_revoked"),
    }


async def test_a_page_reads_what_it_shows_and_hardly_more(crowded: House) -> None:
    async with crowded.deps.db.look() as tx:
        last = await store.page(tx, Wanted(limit=1))
        middle = await store.one(tx, last[0].seq // 2)
        assert middle is not None
        slow: dict[str, Any] = {}
        for name, wanted in pages(crowded.clock.now(), middle).items():
            shown = await store.page(tx, wanted)
            explained = Explained(tx)
            await store.page(explained, wanted)  # type: ignore[arg-type]  # stands in for a transaction
            plan = explained.plan
            buffers = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
            if wasted(plan) > 1000 or buffers > 1000:  # of 140,000
                slow[name] = (len(shown), wasted(plan), buffers, json.dumps(plan))
    assert not slow, slow
