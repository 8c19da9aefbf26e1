"""Many at once, on a real Postgres, many times: one assertion, one revocation, one new person, one block in flight."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock, eventually
from keel.testing.plugin import FreshDatabase
from onbe.drivers.sponsors.protocol import Answer
from onbe.tasks import actions as tasks

TIMES, AT_ONCE = 20, 16


class Waiting:
    """A directory that answers yes, once it is let."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.let = asyncio.Event()
        self.asked = 0

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        self.asked += 1
        at = self._clock.now()
        await self.let.wait()
        return Answer("active", at)

    async def was_asked(self, more_than: int) -> None:
        await eventually(lambda: self.asked > more_than)


def codes(answers: list[httpx2.Response]) -> Counter[Any]:
    return Counter(answer.json().get("reason") or answer.json().get("error", "ok") for answer in answers)


async def test_of_sixteen_uses_of_one_assertion_one_is_let_in(world: World) -> None:
    await world.register("scribe")
    grant = (await world.begin("scribe"))["refresh_token"]
    for turn in range(TIMES):
        assertion = world.assertion("scribe")
        # the uses are of both kinds, and of different persons
        answers = await asyncio.gather(
            *(world.exchange("scribe", ("ada", "bob")[n % 2], actor_token=assertion) for n in range(AT_ONCE // 2)),
            *(world.refresh("scribe", grant, client_assertion=assertion) for _ in range(AT_ONCE // 2)),
        )
        assert codes(list(answers)) == {"ok": 1, "invalid_client": AT_ONCE - 1}, turn
    stored = await world.rows("SELECT count(*) AS n, sum(renewals) AS renewals FROM tasks")
    assert stored[0]["n"] - 1 + stored[0]["renewals"] == TIMES
    outcomes = Counter(outcome for _, outcome in await world.outcomes())
    assert outcomes["assertion_replayed"] == TIMES * (AT_ONCE - 1)


@pytest.mark.parametrize("end", ["task", "agent", "person", "block"])
async def test_no_refresh_is_given_after_the_revocation_it_races(world: World, end: str) -> None:
    """What was given before it counts; what was refused is told why; the task's own count says how many there were."""
    await world.register("scribe")
    for turn in range(TIMES):
        person = f"p{turn}"
        world.person(person)
        given = await world.begin("scribe", person)

        async def revoke(task: str = given["task_id"], person: str = person) -> None:
            await asyncio.sleep(0)
            if end == "task":
                await tasks.end_task(world.deps, task)
            elif end == "agent":
                await tasks.end_tasks_of_agent(world.deps, "scribe")
            elif end == "person":
                await tasks.end_tasks_of_sponsor(world.deps, person)
            else:
                await tasks.block(world.deps, person, "leaves")

        answers = await asyncio.gather(
            *(world.refresh("scribe", given["refresh_token"]) for _ in range(AT_ONCE // 2)),
            revoke(),
            *(world.refresh("scribe", given["refresh_token"]) for _ in range(AT_ONCE // 2)),
        )
        refreshed = codes([answer for answer in answers if answer is not None])
        assert set(refreshed) <= {"ok", "task_revoked", "sponsor_blocked"}, refreshed
        (row,) = await world.rows("SELECT * FROM tasks WHERE id = %(id)s", id=given["task_id"])
        assert row["renewals"] == refreshed["ok"], turn
        after = await world.refresh("scribe", given["refresh_token"])
        assert after.json()["reason"] == "task_revoked"
        records = await world.rows("SELECT * FROM ledger WHERE task = %(id)s ORDER BY seq", id=given["task_id"])
        ended = next(n for n, record in enumerate(records) if record["action"] == "task.revoked")
        assert records[ended]["arguments"]["renewals"] == refreshed["ok"]
        assert all(record["outcome"] != "ok" for record in records[ended + 1 :])
    assert not [outcome for _, outcome in await world.outcomes() if outcome in ("error", "internal_error")]


@pytest.mark.parametrize("end", ["agent", "person", "block", "disable", "delete"])
async def test_an_exchange_in_flight_gets_nothing_once_all_was_ended(
    onbe_database: FreshDatabase, clock: FakeClock, end: str
) -> None:
    directory = Waiting(clock)
    async with world_of(onbe_database, clock, sponsors=directory) as world:
        await world.register("scribe")
        if end != "delete":
            directory.let.set()
            await world.begin("scribe")
            directory.let.clear()
        asked = directory.asked
        flying = asyncio.create_task(world.exchange("scribe"))
        await directory.was_asked(asked)
        if end == "agent":
            await tasks.end_tasks_of_agent(world.deps, "scribe")
        elif end == "person":
            await tasks.end_tasks_of_sponsor(world.deps, "ada")
        elif end == "block":
            await tasks.block(world.deps, "ada", "leaves")
        elif end == "disable":
            await world.sql("UPDATE agents SET enabled = false")
        else:
            await world.sql("DELETE FROM agents")
        directory.let.set()
        said = (await flying).json()
        assert said.get("reason", said["error"]) == {
            "agent": "task_revoked", "person": "task_revoked", "block": "sponsor_blocked", "disable": "agent_disabled",
            "delete": "invalid_client",
        }[end]  # fmt: skip
        assert len(await world.rows("SELECT id FROM tasks")) == (end != "delete"), "the one from before"


async def test_a_person_whom_nobody_knew_is_made_once_by_many_first_exchanges(world: World) -> None:
    await world.register("scribe")
    for turn in range(TIMES):
        world.person(f"new{turn}")
        answers = await asyncio.gather(*(world.exchange("scribe", f"new{turn}") for _ in range(AT_ONCE)))
        assert codes(list(answers)) == {"ok": AT_ONCE}
    assert (await world.rows("SELECT count(*) AS n FROM sponsors"))[0]["n"] == TIMES


async def test_a_block_and_first_exchanges_leave_no_task_alive(world: World) -> None:
    await world.register("scribe")
    for turn in range(TIMES):
        person = f"q{turn}"
        world.person(person)
        await asyncio.gather(
            *(world.exchange("scribe", person) for _ in range(AT_ONCE // 2)),
            tasks.block(world.deps, person, "leaves"),
            *(world.exchange("scribe", person) for _ in range(AT_ONCE // 2)),
        )
        alive = await world.rows("SELECT id FROM tasks WHERE sponsor = %(p)s AND ended_at IS NULL", p=person)
        assert alive == [], turn


async def test_ending_a_task_and_delegating_from_it_leave_no_child_alive(world: World) -> None:
    for agent in ("boss", "helper", "third"):
        await world.register(agent, max_delegation_depth=3)
    for turn in range(TIMES):
        given = await world.begin("boss")
        child = (await world.delegate("helper", given["access_token"])).json()
        answers = await asyncio.gather(
            *(world.delegate("helper", given["access_token"]) for _ in range(4)),
            *(world.delegate("third", child["access_token"]) for _ in range(4)),
            tasks.end_task(world.deps, given["task_id"]),
            *(world.delegate("third", child["access_token"]) for _ in range(4)),
            *(world.refresh("helper", child["refresh_token"]) for _ in range(4)),
        )
        said = codes([answer for answer in answers if isinstance(answer, httpx2.Response)])
        assert set(said) <= {"ok", "parent_revoked"}, (turn, said)
        assert await world.rows("SELECT id FROM tasks WHERE ended_at IS NULL") == [], turn


async def test_keys_that_change_during_an_exchange_are_not_those_it_trusted(
    onbe_database: FreshDatabase, clock: FakeClock
) -> None:
    directory = Waiting(clock)
    async with world_of(onbe_database, clock, sponsors=directory) as world:
        await world.register("scribe")
        flying = asyncio.create_task(world.exchange("scribe"))
        await directory.was_asked(0)
        await world.sql("""UPDATE agents SET jwks = '{"keys": []}'""")
        directory.let.set()
        answer = await flying
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        assert (await world.exchange("scribe")).status_code == 401
        assert await world.rows("SELECT FROM tasks") == []


async def test_a_refresh_that_waits_for_the_directory_past_its_tasks_end_gets_nothing(
    onbe_database: FreshDatabase, clock: FakeClock
) -> None:
    directory = Waiting(clock)
    async with world_of(onbe_database, clock, sponsors=directory) as world:
        await world.register("scribe", max_task_ttl=timedelta(minutes=1))
        directory.let.set()
        given = await world.begin("scribe")
        for seconds, reason in ((54, "task_ending"), (60, "task_expired")):
            directory.let.clear()
            clock.set(clock.now().replace(microsecond=0))
            asked = directory.asked
            flying = asyncio.create_task(world.refresh("scribe", given["refresh_token"]))
            await directory.was_asked(asked)
            began = clock.now()
            clock.advance(timedelta(seconds=seconds + 1))
            directory.let.set()
            assert (await flying).json()["reason"] == reason
            clock.set(began)
