"""Ten minutes of work on thirty-second tokens, against a live Onbe and a guarded tool server, through outages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.behaviour.onbe.client.live import Live, Port, Timeline, served

from keel.testing import FakeClock
from onbe.drivers.sponsors.protocol import CannotAnswer
from onbe_client import MemoryGrants, OnbeClient, SponsorGone, TaskEnded, TaskSession
from onbe_client.guard import Guard, GuardMiddleware, task_token

HALF_MINUTE, TEN_MINUTES = timedelta(seconds=30), timedelta(minutes=10)


async def document(request: Request) -> Response:
    token = task_token(request)
    return JSONResponse({"sub": token.subject, "agent": token.agent, "task": token.task_id, "jti": token.jti})


@asynccontextmanager
async def tool_of(live: Live, world: Timeline) -> AsyncIterator[str]:
    """A tool server with a guard that has no leeway; its address."""
    port = Port()
    guard = Guard(live.issuer, port.url, world=world, leeway=0)
    inside = Starlette(routes=[Route("/document", document)])
    async with guard, served(GuardMiddleware(inside, guard, {"/document": "docs:read"}), port):
        yield port.url


@pytest.fixture
def world(clock: FakeClock) -> Timeline:
    return Timeline(clock)


async def register(live: Live, tool: str, **columns: object) -> None:
    limits = {"max_token_ttl": HALF_MINUTE, "max_task_ttl": TEN_MINUTES}
    await live.world.register("scribe", **{"allowed_audiences": [tool], **limits, **columns})


async def work_on(task: TaskSession, world: Timeline) -> None:
    """A token a second, until there is none."""
    while True:
        await task.access_token()
        await world.pass_by(1)


async def test_no_call_of_a_whole_task_fails_for_an_expired_token_through_outages_of_all_kinds(
    live: Live, world: Timeline
) -> None:
    async with tool_of(live, world) as tool:
        await register(live, tool)
        sponsors = live.world.sponsors

        async def directory_away() -> None:
            sponsors.trouble = CannotAnswer("away")

        async def directory_back() -> None:
            sponsors.trouble = None

        world.at(200, live.go_away)
        world.at(245, live.come_back)
        world.at(400, directory_away)
        world.at(440, directory_back)
        answers: Counter[int] = Counter()
        tokens: set[str] = set()
        async with (
            OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world) as onbe,
            await onbe.exchange(live.world.subject("ada"), tool, "docs:read") as task,
            httpx2.AsyncClient(base_url=tool, auth=task.auth()) as http,
        ):
            while world.elapsed < 593:
                for answer in await asyncio.gather(*(http.get("/document") for _ in range(2))):
                    answers[answer.status_code] += 1
                    tokens.add(answer.json()["jti"])
                await world.pass_by(2)
            await world.pass_by(596 - world.elapsed)
            with pytest.raises(TaskEnded):
                await http.get("/document")
            assert task.task_id is not None
        assert set(answers) == {200}
        assert answers[200] > 2 * 250  # what the outages took was waited for
        assert 25 <= len(tokens) <= 600 / 18 + 2
        outcomes = Counter(row["outcome"] for row in await live.world.ledger("token.refresh"))
        assert set(outcomes) == {"ok", "sponsor_status_unavailable"}


async def test_a_person_who_leaves_stops_the_work_within_one_life_of_a_token(live: Live, world: Timeline) -> None:
    async with tool_of(live, world) as tool:
        await register(live, tool)
        async with (
            OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world, store=MemoryGrants()) as onbe,
            await onbe.exchange(live.world.subject("ada"), tool, "docs:read") as task,
        ):
            await task.access_token()
            live.world.person("ada", "disabled")
            left_at = world.elapsed
            with pytest.raises(SponsorGone) as gone:
                await work_on(task, world)
            assert gone.value.reason == "sponsor_disabled"
            assert world.elapsed - left_at <= 30


async def test_a_sub_agent_works_on_a_part_that_ends_with_the_whole(live: Live, world: Timeline) -> None:
    async with tool_of(live, world) as tool:
        await register(live, tool, max_delegation_depth=2)
        await live.world.register("helper", allowed_audiences=[tool], max_delegation_depth=2)
        async with (
            OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world) as scribe,
            OnbeClient(live.issuer, "helper", live.key("helper"), world=world, instance="pod-7") as helper,
            await scribe.exchange(live.world.subject("ada"), tool) as task,
            await helper.exchange(await task.access_token(), tool, "docs:read") as part,
            Guard(live.issuer, tool, world=world) as guard,
        ):
            seen = await guard.verify(await part.access_token(), "docs:read")
            assert (seen.subject, seen.agent, [actor.id for actor in seen.chain]) == (
                "ada", "helper", ["helper", "scribe"],
            )  # fmt: skip
            assert seen.chain[0].instance == "pod-7"
            assert not seen.allows("docs:write")
            assert part.task_expires_at is not None
            assert task.task_expires_at is not None
            assert part.task_expires_at <= task.task_expires_at


async def test_a_new_process_goes_on_with_the_task_of_the_one_that_died(live: Live, world: Timeline) -> None:
    store = MemoryGrants()
    async with tool_of(live, world) as tool:
        await register(live, tool)
        async with OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world, store=store) as dies:
            first = await dies.exchange(live.world.subject("ada"), tool, "docs:read", key="job")
            await first.access_token()
        await world.pass_by(100)
        async with (
            OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world, store=store) as onbe,
            await onbe.resume("job") as task,
        ):
            assert await task.access_token()
            assert task.task_id == first.task_id
