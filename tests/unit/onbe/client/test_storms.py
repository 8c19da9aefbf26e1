"""Whatever the server does, in whatever order, for any number of callers who come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.onbe.client.stage import ISSUER, PERSON, RESOURCE, FakeOnbe, FakeWorld, agent_key, error

from onbe_client import MemoryGrants, OnbeClient, OnbeError, Over, TaskSession
from onbe_client.client import EARLY_WAIT
from onbe_client.renewal import BACKOFF_MOST

REPLIES: dict[str, Any] = {
    "token": None,
    "away": error(503, "temporarily_unavailable"),
    "slow down": error(429, "slow_down", **{"Retry-After": "7"}),
    "no connection": httpx2.ConnectError("refused"),
    "garbage": httpx2.Response(200, text="<html>"),
    "too short": {"access_token": "x", "token_type": "Bearer", "expires_in": 4},
    "stranger": error(401, "invalid_client"),
    "revoked": error(400, "access_denied", "task_revoked"),
}

storms = st.lists(
    st.tuples(
        st.floats(0, 45),  # what passes before
        st.lists(st.sampled_from(list(REPLIES)[:-1]), max_size=4),
        st.integers(1, 8),  # callers
        st.integers(0, 8),  # of which so many give up
        st.sampled_from([0.0, 20.0, 60.0]),  # their patience
    ),
    max_size=12,
)


class Watched(FakeOnbe):
    """Counts how many renewals are under way at once."""

    under_way = most = 0

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            return await super().handle(request)
        finally:
            self.under_way -= 1


async def weather(storm: list[tuple[float, list[str], int, int, float]], revoked: bool) -> None:
    world = FakeWorld()
    onbe = Watched(world, life=30, task=300)
    store = MemoryGrants()
    async with onbe.http() as http:
        client = OnbeClient(ISSUER, "a", agent_key().as_dict(private=True), http=http, world=world, store=store)
        task = await client.exchange(PERSON, RESOURCE, "a b")
        for passes, replies, callers, cancelled, patience in storm:
            world.clock.advance(passes)
            onbe.replies = [REPLIES[name] for name in replies]
            await call(task, onbe, callers, cancelled, patience)
        if revoked:
            onbe.down = REPLIES["revoked"]
            world.clock.advance(BACKOFF_MOST + 1)  # a refusal of before is told until its pause is over
            for _ in range(2):
                result = await asyncio.gather(task.access_token(), return_exceptions=True)
                assert isinstance(result[0], Over)
        await task.aclose()
    assert onbe.most <= 1
    assert all(0 < wait <= 60 for wait in world.waits)


async def call(task: TaskSession, onbe: FakeOnbe, callers: int, cancelled: int, patience: float) -> None:
    async def one() -> None:
        token = await task.access_token(patience=patience)
        assert onbe.left(token) > 5

    calls = [asyncio.create_task(one()) for _ in range(callers)]
    await asyncio.sleep(0)
    for given_up in calls[:cancelled]:
        given_up.cancel()
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert result is None or isinstance(result, OnbeError | asyncio.CancelledError), repr(result)


@settings(max_examples=60)
@given(storms, st.booleans())
def test_no_storm_makes_a_token_dead_a_renewal_double_or_an_end_undone(
    storm: list[tuple[float, list[str], int, int, float]], revoked: bool
) -> None:
    asyncio.run(weather(storm, revoked))


async def test_a_slow_server_makes_nobody_wait_who_has_a_good_token(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    old = await task.access_token()
    world.clock.advance(20)
    onbe.gate = asyncio.Event()
    async with asyncio.timeout(EARLY_WAIT * 20):
        assert await task.access_token() == old
    onbe.gate.set()
    world.clock.advance(6)
    assert onbe.left(await task.access_token()) > 5
    assert len(onbe.refreshes) == 1
