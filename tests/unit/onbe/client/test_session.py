"""A session of the async client, against a small Onbe in memory."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from joserfc import jwt
from tests.unit.onbe.client.stage import (
    ISSUER,
    PERSON,
    RESOURCE,
    TASK,
    FakeOnbe,
    FakeWorld,
    agent_key,
    error,
)

from onbe_client import (
    AgentUnknown,
    GrantUnknown,
    MemoryGrants,
    OnbeClient,
    ScopeRefused,
    SlowDown,
    TargetRefused,
    TaskEnded,
    TaskRevoked,
    TaskSession,
    Unreachable,
)

AWAY = error(503, "temporarily_unavailable")


async def test_an_exchange_begins_a_task_and_gives_its_first_token(task: TaskSession, onbe: FakeOnbe) -> None:
    form = onbe.forms[0]
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert (form["subject_token"], form["resource"], form["scope"]) == (PERSON, RESOURCE, "a b")
    assert task.task_id == TASK
    assert task.scope == ("a", "b")
    assert task.expires_at is not None
    assert task.task_expires_at is not None
    assert await task.access_token() in onbe.issued
    assert len(onbe.forms) == 1


async def test_every_request_has_an_assertion_of_its_own(task: TaskSession, onbe: FakeOnbe, world: FakeWorld) -> None:
    for _ in range(3):
        world.clock.advance(20)
        await task.access_token()
    said = [form.get("actor_token") or form["client_assertion"] for form in onbe.forms]
    claims = [jwt.decode(one, agent_key(), algorithms=["ES256"]).claims for one in said]
    assert len({one["jti"] for one in claims}) == 4
    assert all(one["iss"] == one["sub"] == "reports" and one["aud"] == ISSUER for one in claims)
    assert all(0 < one["exp"] - one["iat"] <= 300 for one in claims)
    assert all("resource" not in form and "scope" not in form for form in onbe.refreshes)


async def test_a_whole_task_never_gives_a_token_with_less_than_five_seconds_and_then_ends(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    for _ in range(595):
        assert onbe.left(await task.access_token()) > 5
        world.clock.advance(1)
    with pytest.raises(TaskEnded) as ended:
        await task.access_token()
    assert ended.value.reason == "task_ending"
    assert len(onbe.refreshes) <= 600 / 18 + 1


async def test_a_hundred_callers_cause_one_renewal(task: TaskSession, onbe: FakeOnbe, world: FakeWorld) -> None:
    for elapsed in (20, 40):  # with a good token in hand, and without one
        before = len(onbe.refreshes)
        world.clock.advance(elapsed)
        onbe.gate = asyncio.Event()
        callers = [asyncio.create_task(task.access_token()) for _ in range(100)]
        await asyncio.sleep(0)
        onbe.gate.set()
        tokens = set(await asyncio.gather(*callers))
        assert len(tokens) == 1
        assert onbe.left(tokens.pop()) == 30
        assert len(onbe.refreshes) - before == 1


async def test_a_caller_that_gives_up_does_not_take_the_renewal_from_the_others(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    world.clock.advance(40)
    onbe.gate = asyncio.Event()
    first = asyncio.create_task(task.access_token())
    await asyncio.sleep(0)
    second = asyncio.create_task(task.access_token())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    onbe.gate.set()
    assert onbe.left(await second) == 30
    assert first.cancelled()
    assert len(onbe.refreshes) == 1


async def test_an_outage_is_waited_out_and_no_dead_token_is_given(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    old = await task.access_token()
    world.clock.advance(20)
    onbe.down = AWAY
    assert await task.access_token() == old
    world.clock.advance(4)
    assert await task.access_token() == old
    onbe.down = None
    onbe.replies = [
        AWAY,
        error(500, "server_error"),
        httpx2.ConnectError("refused"),
        httpx2.Response(502, text="<html>"),
    ]
    world.clock.advance(2)
    assert onbe.left(await task.access_token()) >= 5
    assert all(1 <= wait <= 60 for wait in world.waits)
    assert onbe.replies == []


async def test_patience_ends_with_the_error_that_could_be_retried(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    world.clock.advance(26)
    onbe.down = httpx2.ConnectError("refused")
    begun = world.monotonic()
    with pytest.raises(Unreachable):
        await task.access_token(patience=20)
    assert world.monotonic() - begun <= 20
    with pytest.raises(Unreachable):
        await task.access_token(patience=0)


async def test_retry_after_is_obeyed(task: TaskSession, onbe: FakeOnbe, world: FakeWorld) -> None:
    world.clock.advance(26)
    onbe.replies = [error(429, "slow_down", **{"Retry-After": "17"})]
    await task.access_token()
    assert world.waits == [17.0]
    world.clock.advance(26)
    onbe.replies = [error(429, "slow_down", **{"Retry-After": "40"})]
    with pytest.raises(SlowDown) as slow:
        await task.access_token(patience=5)
    assert slow.value.retry_after == 40


@pytest.mark.parametrize(
    ("answer", "kind", "kept"),
    [
        (error(400, "access_denied", "task_ending"), TaskEnded, False),
        (error(400, "access_denied", "task_expired"), TaskEnded, False),
        (error(400, "access_denied", "task_revoked"), TaskRevoked, False),
        (error(400, "access_denied", "parent_revoked"), TaskRevoked, False),
        (error(400, "invalid_grant"), GrantUnknown, False),
        (error(400, "invalid_scope"), ScopeRefused, True),
        (error(400, "invalid_target"), TargetRefused, True),
    ],
)
async def test_what_is_over_stops_at_once_and_is_not_asked_again(
    answer: httpx2.Response, kind: type[Exception], kept: bool,
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld, store: MemoryGrants,
) -> None:  # fmt: skip
    world.clock.advance(20)  # the token in hand is good for ten more seconds, and yet the task is over
    onbe.replies = [answer]
    for _ in range(3):
        with pytest.raises(kind):
            await task.access_token()
    assert len(onbe.refreshes) == 1
    assert world.waits == []
    assert (store.load(TASK) is not None) == kept


async def test_an_agent_that_is_not_known_hears_it_at_once_and_asks_again_later(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    world.clock.advance(26)
    onbe.down = error(401, "invalid_client")
    for _ in range(3):
        with pytest.raises(AgentUnknown):
            await task.access_token()
    assert len(onbe.refreshes) == 1
    onbe.down = None
    world.clock.advance(2)
    assert onbe.left(await task.access_token()) == 30


async def test_a_machine_whose_clock_is_wrong_makes_its_assertion_by_the_servers(
    client: OnbeClient, onbe: FakeOnbe, world: FakeWorld
) -> None:
    """The wall clock of this machine is an hour behind; the server says so in its Date."""

    def strict(form: dict[str, str]) -> object:
        said = form.get("actor_token") or form["client_assertion"]
        claims = jwt.decode(said, agent_key(), algorithms=["ES256"]).claims
        if claims["exp"] < 1767326645 + 3600:
            return error(401, "invalid_client", Date="Fri, 02 Jan 2026 05:04:05 GMT")
        return onbe.token()

    onbe.replies = [strict, strict]
    task = await client.exchange(PERSON, RESOURCE, "a")
    assert await task.access_token()
    onbe.replies = [strict]
    world.clock.advance(20)
    await task.access_token()
    assert len(onbe.forms) == 3


async def test_narrowing_asks_for_less_from_then_on(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld, client: OnbeClient
) -> None:
    onbe.replies = [error(400, "invalid_scope")]
    with pytest.raises(ScopeRefused):
        await task.narrow("a z")
    assert await task.access_token()
    onbe.replies = [{**onbe.token(), "scope": "a"}]
    await task.narrow("a")
    assert task.scope == ("a",)
    world.clock.advance(20)
    await task.access_token()
    assert [form.get("scope") for form in onbe.refreshes] == ["a z", "a", "a"]
    again = await client.resume(TASK)
    await again.access_token()
    assert onbe.refreshes[-1]["scope"] == "a"


async def test_an_answer_for_the_wider_scope_is_not_taken_after_narrowing(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    world.clock.advance(26)
    wide, narrow = onbe.token(), {**onbe.token(), "scope": "a"}
    onbe.replies = [lambda form: narrow if "scope" in form else wide] * 2
    onbe.gate = asyncio.Event()
    caller = asyncio.create_task(task.access_token())
    await asyncio.sleep(0)
    narrowing = asyncio.create_task(task.narrow("a"))
    await asyncio.sleep(0)
    onbe.gate.set()
    await narrowing
    await caller
    assert await task.access_token() == narrow["access_token"]
