"""How a session is resumed, finished and revoked, where its token goes, and what it never shows."""

from __future__ import annotations

import asyncio
import logging

import httpx2
import pytest
from tests.unit.onbe.client.stage import (
    GRANT,
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
    GrantUnknown,
    MemoryGrants,
    Misconfigured,
    OnbeClient,
    SessionClosed,
    TaskSession,
    Unavailable,
)

AWAY = error(503, "temporarily_unavailable")


async def test_a_task_is_resumed_by_its_key_by_its_grant_and_by_the_grant_alone(
    task: TaskSession, client: OnbeClient, onbe: FakeOnbe
) -> None:
    for what in (TASK, task.grant, GRANT):
        session = await client.resume(what)
        assert onbe.left(await session.access_token()) == 30
        assert session.task_id == TASK
    with pytest.raises(GrantUnknown):
        await client.resume("no such key")


async def test_a_grant_of_another_agent_is_not_resumed(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld, store: MemoryGrants
) -> None:
    async with onbe.http() as http:
        other = OnbeClient(ISSUER, "other", agent_key().as_dict(private=True), http=http, world=world, store=store)
        with pytest.raises(Misconfigured):
            await other.resume(TASK)
    assert len(onbe.refreshes) == 0


async def test_a_block_that_ends_well_finishes_the_task_and_one_that_fails_leaves_it_to_be_resumed(
    client: OnbeClient, onbe: FakeOnbe, store: MemoryGrants
) -> None:
    with pytest.raises(KeyError):
        async with await client.exchange(PERSON, RESOURCE, "a", key="job"):
            raise KeyError
    assert store.keys() == ("job",)
    async with await client.resume("job") as task:
        await task.access_token()
    assert store.keys() == ()
    with pytest.raises(SessionClosed):
        await task.access_token()
    assert not any(url.endswith("/revoke") for url, _ in onbe.asked)


async def test_revoking_sends_the_grant_and_ends_the_session(
    task: TaskSession, onbe: FakeOnbe, store: MemoryGrants
) -> None:
    await task.revoke()
    url, form = onbe.asked[-1]
    assert url == f"{ISSUER}/oauth2/revoke"
    assert (form["token"], form["token_type_hint"]) == (GRANT, "refresh_token")
    with pytest.raises(SessionClosed):
        await task.access_token()
    assert store.keys() == ()


async def test_closing_ends_a_renewal_under_way_and_whoever_waits_for_it(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    world.clock.advance(26)
    onbe.gate = asyncio.Event()
    caller = asyncio.create_task(task.access_token())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await task.aclose()
    with pytest.raises(SessionClosed):
        await caller


async def test_an_exchange_is_retried_while_nothing_was_done(
    client: OnbeClient, onbe: FakeOnbe, world: FakeWorld
) -> None:
    onbe.replies = [AWAY, httpx2.ConnectError("refused"), error(429, "slow_down")]
    await client.exchange(PERSON, RESOURCE, "a")
    assert len(world.waits) == 3
    onbe.down = AWAY
    with pytest.raises(Unavailable):
        await client.exchange(PERSON, RESOURCE, "a", patience=0)


async def test_metadata_of_another_issuer_are_not_believed(
    client: OnbeClient, onbe: FakeOnbe, world: FakeWorld
) -> None:
    for issuer in (f"{ISSUER}/", "https://onbe.test.evil.example", "https://ONBE.test", None, 7):
        onbe.metadata["issuer"] = issuer
        with pytest.raises(Misconfigured):
            await client.exchange(PERSON, RESOURCE, "a")
    assert onbe.forms == []


async def test_a_token_goes_to_its_resource_alone(task: TaskSession) -> None:
    seen: list[httpx2.Request] = []

    def tool(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(tool), auth=task.auth()) as http:
        await http.get(f"{RESOURCE}/one")
        for elsewhere in ("https://elsewhere.test/", "http://files.test/", "https://files.test:444/"):
            with pytest.raises(Misconfigured):
                await http.get(elsewhere)
        assert [request.headers["authorization"] for request in seen] == [f"Bearer {await task.access_token()}"]
        await http.get("https://elsewhere.test/", auth=task.auth(anywhere=True))
        assert len(seen) == 2


async def test_a_redirect_of_the_tools_takes_no_token_elsewhere(task: TaskSession) -> None:
    seen: list[tuple[str, bool]] = []

    def tool(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.url.host, "authorization" in request.headers))
        away = {"location": "https://elsewhere.test/"}
        return httpx2.Response(302, headers=away) if request.url.host == "files.test" else httpx2.Response(200)

    transport = httpx2.MockTransport(tool)
    async with httpx2.AsyncClient(transport=transport, auth=task.auth(), follow_redirects=True) as http:
        await http.get(f"{RESOURCE}/one")
    assert seen == [("files.test", True), ("elsewhere.test", False)]


async def test_nothing_secret_is_shown_by_reprs_errors_or_logs(
    client: OnbeClient, onbe: FakeOnbe, world: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[object] = [client, client._core]
    task = await client.exchange(PERSON, RESOURCE, "a b")
    token = await task.access_token()
    shown += [task, task.grant, task._renewals, task._renewals.advise(world.monotonic())]

    def echo(form: dict[str, str]) -> httpx2.Response:
        text = " ".join(form.values())
        return httpx2.Response(400, json={"error": "invalid_request", "error_description": text, "reason": text})

    onbe.down = echo
    world.clock.advance(26)
    for call in (task.access_token(), client.exchange(PERSON, RESOURCE, "a"), client.revoke(GRANT)):
        with pytest.raises(Exception) as raised:
            await call
        shown += [raised.value, raised.value.__dict__, raised.value.args]
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
    text = " ".join([*map(repr, shown), *map(str, shown), caplog.text])
    secrets = [PERSON, GRANT, token, *(form.get("client_assertion", PERSON) for form in onbe.forms)]
    assert not [secret for secret in secrets if secret in text or secret[-40:] in text]
    assert str(agent_key().as_dict(private=True)["d"]) not in text
