"""The blocking twin, for threads and forks; what both share is shown in test_session.py and test_renewal.py."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from tests.unit.onbe.client.stage import GRANT, ISSUER, PERSON, RESOURCE, TASK, FakeOnbe, FakeWorld, agent_key, error

import onbe_client
from onbe_client import (
    MemoryGrants,
    Misconfigured,
    ScopeRefused,
    SessionClosed,
    SlowDown,
    TaskEnded,
    TaskRevoked,
    sync,
)


@pytest.fixture
def blocking(world: FakeWorld, onbe: FakeOnbe, store: MemoryGrants) -> Iterator[sync.OnbeClient]:
    with onbe.blocking_http() as http:
        yield sync.OnbeClient(ISSUER, "reports", agent_key().as_dict(private=True), http=http, world=world, store=store)


@pytest.fixture
def held(blocking: sync.OnbeClient) -> sync.TaskSession:
    return blocking.exchange(PERSON, RESOURCE, "a b")


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_twins_can_do_the_same() -> None:
    for name in ("OnbeClient", "TaskSession"):
        one, other = public(getattr(onbe_client, name)), public(getattr(sync, name))
        assert one - {"aclose"} == other - {"close"}


def test_a_whole_task_never_gives_a_token_with_less_than_five_seconds_and_then_ends_here_too(
    held: sync.TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    away = error(503, "temporarily_unavailable")
    onbe.replies = [None, None, *[away] * 4]
    while onbe.task_ends - world.now() > 5:
        assert onbe.left(held.access_token()) > 5
        world.clock.advance(1)
    with pytest.raises(TaskEnded):
        held.access_token()
    assert onbe.replies == []
    assert all(1 <= wait <= 60 for wait in world.waits)


def test_many_threads_cause_one_renewal(held: sync.TaskSession, onbe: FakeOnbe, world: FakeWorld) -> None:
    entered, gate = threading.Event(), threading.Event()

    def slow(form: dict[str, str]) -> object:
        entered.set()
        assert gate.wait(30)
        return onbe.token()

    with ThreadPoolExecutor(16) as pool:
        world.clock.advance(26)
        onbe.replies = [slow]
        callers = [pool.submit(held.access_token) for _ in range(16)]
        assert entered.wait(30)
        gate.set()
        assert len({caller.result(30) for caller in callers}) == 1
    assert len(onbe.refreshes) == 1


def test_while_a_thread_renews_early_the_others_have_the_good_token_at_once(
    held: sync.TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    old = held.access_token()
    entered, gate = threading.Event(), threading.Event()

    def slow(form: dict[str, str]) -> object:
        entered.set()
        assert gate.wait(30)
        return onbe.token()

    world.clock.advance(20)
    onbe.replies = [slow]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(held.access_token)
        assert entered.wait(30)
        assert held.access_token() == old
        gate.set()
        assert first.result(30) != old


def test_what_is_over_or_refused_is_told_here_too(
    held: sync.TaskSession, onbe: FakeOnbe, world: FakeWorld, store: MemoryGrants
) -> None:
    world.clock.advance(26)
    onbe.replies = [error(429, "slow_down", **{"Retry-After": "30"})]
    with pytest.raises(SlowDown):
        held.access_token(patience=3)
    world.clock.advance(30)
    onbe.replies = [error(400, "access_denied", "task_revoked")]
    for _ in range(2):
        with pytest.raises(TaskRevoked):
            held.access_token()
    assert store.keys() == ()


def test_narrowing_resuming_finishing_and_revoking_work_here_too(
    held: sync.TaskSession, blocking: sync.OnbeClient, onbe: FakeOnbe, store: MemoryGrants
) -> None:
    onbe.replies = [error(400, "invalid_scope")]
    with pytest.raises(ScopeRefused):
        held.narrow("z")
    onbe.replies = [{**onbe.token(), "scope": "a"}]
    held.narrow("a")
    assert held.scope == ("a",)
    with blocking.resume(TASK) as again:
        again.access_token()
    assert onbe.refreshes[-1]["scope"] == "a"
    assert store.keys() == ()
    by_grant = blocking.resume(GRANT)
    by_grant.revoke()
    assert onbe.asked[-1][0].endswith("/revoke")
    with pytest.raises(SessionClosed):
        by_grant.access_token()
    blocking.revoke("a-token")
    assert onbe.forms[-1]["token_type_hint"] == "access_token"


async def test_each_kind_of_http_client_takes_its_kind_of_session(
    held: sync.TaskSession, task: onbe_client.TaskSession
) -> None:
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, text=request.headers["authorization"]))
    with httpx2.Client(transport=transport, auth=held.auth()) as http:
        assert http.get(f"{RESOURCE}/x").text == f"Bearer {held.access_token()}"
        with pytest.raises(Misconfigured):
            http.get("https://elsewhere.test/")
        with pytest.raises(Misconfigured):
            http.get(RESOURCE, auth=task.auth())
    async with httpx2.AsyncClient(transport=transport, auth=held.auth()) as other:
        with pytest.raises(Misconfigured):
            await other.get(RESOURCE)


def test_a_child_made_by_fork_has_connections_and_locks_of_its_own(
    held: sync.TaskSession, onbe: FakeOnbe, world: FakeWorld
) -> None:
    """Also where a thread of the parent was just renewing."""
    own = sync.OnbeClient(ISSUER, "reports", agent_key().as_dict(private=True), world=world)
    before = own._http
    world.clock.advance(26)
    with held._renewing, held._lock:
        child = os.fork()
        if child == 0:  # nothing but plain looks here: a failed assertion would run pytest twice
            good = own._http is not before and bool(held.access_token())
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert own._http is before
    own.close()
