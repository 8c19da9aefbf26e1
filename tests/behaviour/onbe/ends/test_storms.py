"""Many at the same moment on many connections: no deadlock, and at the end nothing that should not be."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from tests.behaviour.onbe.ends.asking import administrator, revoke, settings_with_admin, standing
from tests.behaviour.onbe.ends.meeting import DEEP, scene
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.credentials import jobs as credential_jobs
from onbe.tasks import jobs

AGENTS = ("scribe", "helper", "third", "fourth")
PEOPLE = ("ada", "bob")


@pytest.fixture
async def place(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[World]:
    async with world_of(onbe_database, clock, settings_with_admin()) as world:
        yield world


async def deadlocks(world: World) -> int:
    """How many deadlocks the database has broken."""
    await world.rows("SELECT pg_stat_force_next_flush()")
    (row,) = await world.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(row["deadlocks"])


@pytest.mark.parametrize("turn", range(12))
async def test_of_sixteen_refreshes_and_one_revocation_each_comes_before_it_or_gets_nothing(
    place: World, turn: int
) -> None:
    here = await scene(place)
    refreshes = [place.refresh("scribe", here.given["refresh_token"]) for _ in range(16)]
    calls = [*refreshes[:turn], revoke(place, "scribe", here.given["refresh_token"]), *refreshes[turn:]]
    answers = await asyncio.gather(*calls)
    revoked, refreshed = answers[turn], [one for n, one in enumerate(answers) if n != turn]
    assert (revoked.status_code, revoked.content) == (200, b"")
    assert {one.status_code for one in refreshed} <= {200, 400}
    assert {one.json()["reason"] for one in refreshed if one.status_code == 400} <= {"task_revoked"}
    won = [one.json() for one in refreshed if one.status_code == 200]
    (told,) = await place.ledger("task.revoked")
    assert told["arguments"]["renewals"] == len(won)
    assert (await place.refresh("scribe", here.given["refresh_token"])).json()["reason"] == "task_revoked"
    assert not any([(await standing(place, one["access_token"]))["active"] for one in won])
    records = await place.ledger("token.refresh")
    assert sum(row["outcome"] == "ok" for row in records) == min(1, len(won))
    assert sum(row["outcome"] == "task_revoked" for row in records) == 16 - len(won) + 1
    assert await deadlocks(place) == 0


@pytest.mark.parametrize("turn", range(6))
async def test_of_sixteen_ways_to_end_one_task_at_once_one_ends_it(place: World, turn: int) -> None:
    here = await scene(place)
    kinds = ["revoke", "kill task", "kill agent", "kill person", "block"] * 3 + ["revoke"]
    random.Random(turn).shuffle(kinds)
    answers = await asyncio.gather(*(here.switch(kind)() for kind in kinds))
    assert {one.status_code for one in answers} == {200}
    assert len(await place.ledger("task.revoked")) == 1
    assert await deadlocks(place) == 0


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_of_everything_deadlocks_nowhere_and_leaves_nothing_open_that_was_ended(
    place: World, seed: int
) -> None:
    for agent in (*AGENTS, "tool"):
        await place.register(agent, **DEEP)
    chance = random.Random(seed)
    storm = Storm(place, chance)
    await asyncio.gather(*(storm.go_on(30) for _ in range(10)))
    assert storm.faults == []
    assert await deadlocks(place) == 0
    await nothing_acts_after_its_end(place)
    seen = Counter(storm.done)
    assert seen["exchange 200"] > 10
    assert seen["delegation 200"] > 1


LATEST = 6
"""Of so many tasks, the newest, one is acted on: those before them have mostly ended."""


class Storm:
    """Requests and switches by chance, over tasks that other requests of the storm began."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance
        self.given: list[tuple[str, dict[str, Any]]] = []
        self.done: list[str] = []
        self.faults: list[str] = []

    async def go_on(self, times: int) -> None:
        """One of those who are at it: one thing after another."""
        for _ in range(times):
            self.world.later(0.001)
            await self.one()

    async def one(self) -> None:
        """Do one thing."""
        kind = self.chance.choice(
            ["exchange"] * 8 + ["refresh"] * 8 + ["delegation"] * 8 + ["ask"] * 2 + ["unblock"] * 10
            + ["revoke", "kill task", "kill agent", "kill person", "block", "sweep", "register"]
        )  # fmt: skip
        try:
            answer = await self._do(kind)
        except Exception as error:
            self.faults.append(f"{kind}: {error!r}")
            raise
        if answer is not None:
            self.done.append(f"{kind} {answer.status_code}")
            if answer.status_code not in (200, 400, 404):
                self.faults.append(f"{kind}: {answer.status_code} {answer.text}")

    async def _do(self, kind: str) -> httpx2.Response | None:
        world, agent, person = self.world, self.chance.choice(AGENTS), self.chance.choice(PEOPLE)
        for _ in range(self.chance.randrange(40)):
            await asyncio.sleep(0)  # others go first, in an order of chance
        holder, given = self.chance.choice(self.given[-LATEST:]) if self.given else (agent, None)
        if given is None and kind not in ("exchange", "kill person", "block", "unblock", "sweep", "kill agent"):
            kind = "exchange"
        match kind:
            case "exchange":
                return self._keep(agent, await world.exchange(agent, person))
            case "delegation" if given is not None:
                return self._keep(agent, await world.delegate(agent, given["access_token"]))
            case "refresh" if given is not None:
                return await world.refresh(holder, given["refresh_token"])
            case "revoke" if given is not None:
                token = given[self.chance.choice(["refresh_token", "access_token"])]
                return await revoke(world, holder, token)
            case "ask" if given is not None:
                await standing(world, given["access_token"])
            case "kill task" if given is not None:
                return await administrator(world, "DELETE", f"/admin/tasks/{given['task_id']}")
            case "kill agent":
                return await administrator(world, "DELETE", f"/admin/agents/{agent}/tasks")
            case "kill person":
                return await administrator(world, "DELETE", f"/admin/sponsors/{person}/tasks")
            case "block":
                path = f"/admin/sponsors/{person}/block"
                return await administrator(world, "PUT", path, json={"reason": f"r{self.chance.random()}"})
            case "unblock":
                return await administrator(world, "DELETE", f"/admin/sponsors/{person}/block")
            case "register":
                await administrator(world, "PATCH", f"/admin/agents/{agent}", json={"display_name": f"{person}'s"})
            case "sweep":
                await jobs.tick(world.deps)
                await credential_jobs.tick(world.deps)
        return None

    def _keep(self, agent: str, answer: httpx2.Response) -> httpx2.Response:
        if answer.status_code == 200:
            self.given.append((agent, answer.json()))
        return answer


async def nothing_acts_after_its_end(world: World) -> None:
    """What holds at any moment, whatever was done before."""
    of_blocked = await world.rows(
        "SELECT t.id FROM tasks t JOIN sponsors s ON s.key = t.sponsor WHERE t.ended_at IS NULL AND s.blocks <> '{}'"
    )
    assert of_blocked == []
    orphans = await world.rows(
        "SELECT c.id FROM tasks c JOIN tasks p ON p.id = c.parent WHERE c.ended_at IS NULL AND p.ended_at IS NOT NULL"
    )
    assert orphans == []
    fenced = await world.rows(
        """
        SELECT t.id FROM tasks t JOIN sponsors s ON s.key = t.sponsor JOIN agents a ON a.agent_id = t.agent
        WHERE t.ended_at IS NULL AND (t.created_at < s.tasks_ended_at OR t.created_at < a.tasks_ended_at)
        """
    )
    assert fenced == []
    ends = await world.rows('SELECT id, "end", renewals FROM tasks WHERE ended_at IS NOT NULL')
    told = await world.ledger("task.revoked", "task.expired")
    assert sorted((row["task"], row["action"]) for row in told) == sorted((r["id"], f"task.{r['end']}") for r in ends)
    renewals = {row["task"]: row["arguments"]["renewals"] for row in told}
    assert renewals == {row["id"]: row["renewals"] for row in ends}
    grants = await world.rows("SELECT id FROM tasks WHERE ended_at IS NULL")
    assert {row["id"] for row in grants}.isdisjoint(row["task"] for row in told)
