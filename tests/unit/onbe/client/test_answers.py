"""Answers that make no sense: none of them becomes a token, and none ends a task that may go on."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.onbe.client.stage import PERSON, RESOURCE, FakeOnbe, FakeWorld, error

from onbe_client import (
    AgentDisabled,
    AgentUnknown,
    BadAnswer,
    GrantUnknown,
    OnbeClient,
    OnbeError,
    Over,
    RequestRefused,
    ScopeRefused,
    SlowDown,
    SponsorGone,
    TargetRefused,
    TaskEnded,
    TaskRevoked,
    TaskSession,
    Unavailable,
)
from onbe_client.answers import LONGEST_BELIEVED, failure, issued
from onbe_client.steps import Answer

GOOD: dict[str, Any] = {"access_token": "a-token", "token_type": "Bearer", "expires_in": 30, "task_id": "task_1"}


def answer(changes: dict[str, Any]) -> Answer:
    kept = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return Answer(200, body=json.dumps(kept).encode())


ODD: list[dict[str, Any]] = [
    {"expires_in": None}, {"expires_in": -1}, {"expires_in": 0}, {"expires_in": 5}, {"expires_in": "30"},
    {"expires_in": True}, {"expires_in": [30]}, {"expires_in": {}}, {"expires_in": float("nan")},
    {"expires_in": float("inf")}, {"expires_in": 10**400}, {"access_token": None}, {"access_token": ""},
    {"access_token": 7}, {"access_token": "a b"}, {"access_token": "a\r\nX-Evil: 1"}, {"access_token": "é"},
    {"access_token": "a" * 20_000}, {"token_type": None}, {"token_type": "mac"}, {"token_type": 1},
    {"refresh_token": 7}, {"refresh_token": ""}, {"refresh_token": "a\nb"}, {"refresh_token": "a" * 2000},
    {"task_id": 7}, {"task_id": "../x"}, {"task_id": "a\nb"}, {"scope": 'a "b"'},
]  # fmt: skip


@pytest.mark.parametrize("changes", ODD)
def test_an_answer_that_could_not_be_used_safely_is_no_token(changes: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        issued(answer(changes))


@pytest.mark.parametrize("life", [10**9, 3601.5, 10**12])
def test_a_very_long_life_is_believed_for_an_hour(life: float) -> None:
    assert issued(answer({"expires_in": life})).expires_in == LONGEST_BELIEVED


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*GOOD, "error", "reason", "scope"]), inner),
    max_leaves=20,
).map(lambda value: json.dumps(value).encode()), st.integers(100, 999))  # fmt: skip
def test_whatever_comes_is_a_token_or_an_error_of_the_tree(body: bytes, status: int) -> None:
    with suppress(OnbeError):
        found = issued(Answer(status, body=body))
        assert status == 200
        assert 5 < found.expires_in <= LONGEST_BELIEVED


@pytest.mark.parametrize(
    ("status", "code", "reason", "kind"),
    [
        (503, "temporarily_unavailable", None, Unavailable), (500, "server_error", None, Unavailable),
        (502, "access_denied", "task_revoked", Unavailable), (429, "slow_down", None, SlowDown),
        (429, "access_denied", "task_revoked", SlowDown), (400, "access_denied", "task_ending", TaskEnded),
        (400, "access_denied", "task_expired", TaskEnded), (403, "access_denied", "task_revoked", TaskRevoked),
        (400, "access_denied", "parent_revoked", TaskRevoked), (400, "access_denied", "sponsor_blocked", SponsorGone),
        (400, "access_denied", "sponsor_disabled", SponsorGone), (400, "access_denied", "sponsor_new", SponsorGone),
        (400, "access_denied", "agent_disabled", AgentDisabled), (400, "access_denied", "a_new_reason", Over),
        (400, "access_denied", None, Over), (400, "invalid_grant", None, GrantUnknown),
        (400, "invalid_scope", None, ScopeRefused), (400, "invalid_target", None, TargetRefused),
        (401, "invalid_client", None, AgentUnknown), (400, "invalid_request", None, RequestRefused),
        (400, "unsupported_grant_type", None, RequestRefused), (413, "invalid_request", None, RequestRefused),
    ],
)  # fmt: skip
def test_each_error_has_its_kind(status: int, code: str, reason: str | None, kind: type[OnbeError]) -> None:
    said = error(status, code, reason)
    found = failure(Answer(status, body=said.content))
    assert type(found) is kind
    assert (found.error, found.reason, found.status) == (code, reason, status)
    assert found.advice in str(found)
    assert type(found.again()) is kind
    assert found.again().__dict__ == found.__dict__


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_never_followed(task: TaskSession, onbe: FakeOnbe, world: FakeWorld, status: int) -> None:
    onbe.replies = [httpx2.Response(status, headers={"location": "https://evil.test/token"})]
    world.clock.advance(20)
    await task.access_token()
    assert len(onbe.refreshes) == 1
    assert not [url for url, _ in onbe.asked if "evil" in url]


ANSWERS: list[httpx2.Response] = [
    *(httpx2.Response(status) for status in (200, 204, 404, 405, 418)), httpx2.Response(201, json=GOOD),
    *(httpx2.Response(200, content=body) for body in (b"<html>", b"[]", b"\xff\xfe", b"[" * 50_000, b" " * 300_000)),
    *(httpx2.Response(400, content=body) for body in (b"no", b'{"error": 7}', b'{"error": "a\\nb"}', b"{}")),
    httpx2.Response(200, json=GOOD, headers={"content-encoding": "br"}),
    httpx2.Response(302, headers={"location": "/"}),
]  # fmt: skip
GARBAGE: list[Any] = [
    *ANSWERS, {**GOOD, "task_id": "task_of_another"}, *(dict(GOOD, **odd) for odd in ODD if "nan" not in str(odd))
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(GARBAGE)))
async def test_garbage_leaves_the_good_token_and_the_next_renewal_mends_it(
    task: TaskSession, onbe: FakeOnbe, world: FakeWorld, number: int
) -> None:
    old = await task.access_token()
    onbe.down = GARBAGE[number]
    world.clock.advance(20)
    assert await task.access_token() == old
    world.clock.advance(6)
    with pytest.raises(BadAnswer):
        await task.access_token(patience=5)
    onbe.down = None
    assert onbe.left(await task.access_token()) == 30


@pytest.mark.parametrize("missing", ["refresh_token", "task_id"])
async def test_an_exchange_without_grant_or_task_is_no_task_and_is_not_repeated(
    client: OnbeClient, onbe: FakeOnbe, missing: str
) -> None:
    onbe.replies = [{name: value for name, value in onbe.token().items() if name != missing}]
    with pytest.raises(BadAnswer):
        await client.exchange(PERSON, RESOURCE, "a")
    assert len(onbe.forms) == 1


async def test_a_task_whose_end_cannot_be_told_is_renewed_until_the_server_says_no(
    client: OnbeClient, onbe: FakeOnbe, world: FakeWorld
) -> None:
    """A token that is no JWT says nothing of its task's end; the server does, in its own time."""
    opaque = {**GOOD, "task_id": "task_1", "refresh_token": "task_grant_x", "task_expires_at": "soon"}
    onbe.replies = [opaque, opaque, error(400, "access_denied", "task_ending")]
    task = await client.exchange(PERSON, RESOURCE, "a")
    world.clock.advance(20)
    assert await task.access_token() == "a-token"
    assert task.task_expires_at is None
    world.clock.advance(20)
    with pytest.raises(TaskEnded):
        await task.access_token()


@pytest.mark.parametrize("change", [
    {"token_endpoint": "http://onbe.test/token"}, {"token_endpoint": None}, {"token_endpoint": 7},
    {"token_endpoint": "http://127.0.0.1/token"}, {"token_endpoint": "file:///etc/passwd"},
    {"token_endpoint": "https://u:p@onbe.test/"}, {"jwks_uri": "//onbe.test"}, {"revocation_endpoint": "javascript:1"},
    {"introspection_endpoint": "https://[::1"},
])  # fmt: skip
async def test_metadata_with_unfit_addresses_are_not_used(
    client: OnbeClient, onbe: FakeOnbe, change: dict[str, Any]
) -> None:
    onbe.metadata |= change
    with pytest.raises(BadAnswer):
        await client.exchange(PERSON, RESOURCE, "a")
    assert onbe.forms == []
