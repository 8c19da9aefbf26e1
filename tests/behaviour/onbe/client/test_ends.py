"""What ends a task, seen from the agent and from the tool server; and the machine's own clocks."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta

import pytest
from tests.behaviour.onbe.client.live import Live, Timeline, live_onbe
from tests.behaviour.onbe.world import OTHER_TOOL, TOOL

from keel.clock import SystemClock
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.settings import AgentSettings, TokenSettings
from onbe_client import (
    AgentUnknown,
    OnbeClient,
    RequestRefused,
    ScopeRefused,
    TargetRefused,
    TaskEnded,
    TaskRevoked,
    sync,
)
from onbe_client.guard import Denied, Guard


class RealClock(FakeClock):
    """The machine's own, where a test's is expected."""

    def now(self) -> datetime:
        return SystemClock().now()

    def monotonic(self) -> float:
        return SystemClock().monotonic()


@pytest.fixture
def world(clock: FakeClock) -> Timeline:
    return Timeline(clock)


async def test_a_revoked_token_of_high_risk_is_refused_at_once_and_any_other_when_it_expires(
    live: Live, world: Timeline
) -> None:
    await live.world.register("scribe", high_risk_audiences=[OTHER_TOOL], allowed_audiences=[TOOL, OTHER_TOOL])
    await live.world.register("tool", allowed_audiences=[TOOL])
    async with (
        OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world) as onbe,
        Guard(live.issuer, OTHER_TOOL, agent_id="tool", key=live.key("tool"), world=world) as risky,
        Guard(live.issuer, TOOL, world=world) as plain,
        Guard(live.issuer, TOOL, agent_id="tool", key=live.key("tool"), world=world, introspect_always=True) as always,
        Guard(live.issuer, OTHER_TOOL, world=world) as unable,
    ):
        risk = await onbe.exchange(live.world.subject("ada"), OTHER_TOOL)
        task = await onbe.exchange(live.world.subject("ada"), TOOL)
        high, low = await risk.access_token(), await task.access_token()
        assert (await risky.verify(high)).introspect_required
        assert (await always.verify(low)).task_id == task.task_id
        with pytest.raises(Denied) as cannot:
            await unable.verify(high)
        assert cannot.value.status == 503
        await risk.revoke()
        await onbe.revoke(task.grant.grant)
        for guard, token in ((risky, high), (always, low)):
            with pytest.raises(Denied) as denied:
                await guard.verify(token)
            assert (denied.value.reason, denied.value.status) == ("inactive", 401)
        assert (await plain.verify(low)).task_id == task.task_id
        await world.pass_by(180)
        with pytest.raises(TaskRevoked):
            await task.access_token()
        await world.pass_by(125)
        with pytest.raises(Denied):
            await plain.verify(low)


async def test_while_onbe_is_away_tokens_of_high_risk_wait_and_others_go_on(live: Live, world: Timeline) -> None:
    await live.world.register("scribe", high_risk_audiences=[OTHER_TOOL], allowed_audiences=[TOOL, OTHER_TOOL])
    await live.world.register("tool", allowed_audiences=[TOOL])
    async with (
        OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world) as onbe,
        Guard(live.issuer, OTHER_TOOL, agent_id="tool", key=live.key("tool"), world=world) as risky,
        Guard(live.issuer, TOOL, world=world) as plain,
    ):
        high = await (await onbe.exchange(live.world.subject("ada"), OTHER_TOOL)).access_token()
        low = await (await onbe.exchange(live.world.subject("ada"), TOOL)).access_token()
        await risky.verify(high)
        await plain.verify(low)
        await live.go_away()
        assert (await plain.verify(low)).agent == "scribe"
        with pytest.raises(Denied) as denied:
            await risky.verify(high)
        assert denied.value.error == "temporarily_unavailable"
        await live.come_back()
        assert (await risky.verify(high)).agent == "scribe"


async def test_what_onbe_refuses_has_its_kind_here(live: Live, world: Timeline) -> None:
    await live.world.register("scribe")
    await live.world.register("other")
    subject = live.world.subject("ada")
    async with (
        OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world) as onbe,
        OnbeClient(live.issuer, "scribe", live.key("other"), world=world) as impostor,
        OnbeClient(live.issuer, "nobody", live.key("other"), world=world) as nobody,
    ):
        with pytest.raises(ScopeRefused):
            await onbe.exchange(subject, TOOL, "mail:send")
        with pytest.raises(TargetRefused):
            await onbe.exchange(subject, OTHER_TOOL)
        with pytest.raises(RequestRefused):
            await onbe.exchange("no.such.token", TOOL)
        for stranger in (impostor, nobody):
            with pytest.raises(AgentUnknown):
                await stranger.exchange(subject, TOOL)
        task = await onbe.exchange(subject, TOOL, "docs:read")
        with pytest.raises(ScopeRefused):
            await task.narrow("docs:read docs:write")
        assert await task.access_token()


async def test_narrowing_and_the_rotation_of_keys_are_seen_by_the_tool_server(live: Live, world: Timeline) -> None:
    await live.world.register("scribe")
    async with (
        OnbeClient(live.issuer, "scribe", live.key("scribe"), world=world) as onbe,
        Guard(live.issuer, TOOL, world=world) as guard,
    ):
        task = await onbe.exchange(live.world.subject("ada"), TOOL, "docs:read docs:write")
        assert (await guard.verify(await task.access_token(), "docs:write")).agent == "scribe"
        await world.pass_by(60)
        live.world.deps.signing.rotate()  # type: ignore[attr-defined]  # the test's own signing can
        await task.narrow("docs:read")
        with pytest.raises(Denied) as denied:
            await guard.verify(await task.access_token(), "docs:write")
        assert denied.value.error == "insufficient_scope"
        assert (await guard.verify(await task.access_token(), "docs:read")).scope == ("docs:read",)


async def test_a_real_task_by_real_clocks_async_and_blocking_ends_as_it_should(onbe_database: FreshDatabase) -> None:
    """Eleven seconds long, with tokens of eight: renewed at 60 %, ended by the task's own clock."""
    shortest = timedelta(seconds=1)
    agents = AgentSettings(min_task_ttl=shortest, min_token_ttl=shortest)
    tokens = TokenSettings(default_task_ttl=timedelta(seconds=11), default_token_ttl=timedelta(seconds=8))
    async with live_onbe(onbe_database, RealClock(), agents, tokens) as live:
        await live.world.register("scribe")
        subject = live.world.subject("ada")
        clients: list[set[str]] = [set(), set()]
        go_on = threading.Event()

        def blocking() -> None:
            with sync.OnbeClient(live.issuer, "scribe", live.key("scribe")) as onbe:
                task = onbe.exchange(subject, TOOL)
                try:
                    while not go_on.wait(0.1):
                        clients[1].add(task.access_token())
                except TaskEnded:
                    return

        async with (
            OnbeClient(live.issuer, "scribe", live.key("scribe")) as onbe,
            Guard(live.issuer, TOOL, leeway=0) as guard,
        ):
            thread = asyncio.create_task(asyncio.to_thread(blocking))
            task = await onbe.exchange(subject, TOOL)
            try:
                while True:
                    token = await task.access_token()
                    await guard.verify(token)
                    clients[0].add(token)
                    await asyncio.sleep(0.1)
            except TaskEnded:
                pass
            finally:
                await asyncio.wait([thread], timeout=15)
                go_on.set()
                await thread
        assert all(2 <= len(tokens) <= 3 for tokens in clients), clients  # whole seconds may cost one more
