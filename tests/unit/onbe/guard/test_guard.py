"""Which tokens a guard takes, and which it does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.onbe.client.stage import ISSUER, RESOURCE, FakeWorld, agent_key
from tests.unit.onbe.guard.attacks import ATTACKS, OTHER
from tests.unit.onbe.guard.issuer import Issuer

from onbe_client import Misconfigured
from onbe_client.guard import Actor, Denied, Guard


async def test_a_good_token_says_who_acts_for_whom(guard: Guard, issuer: Issuer) -> None:
    act = {"sub": "writer", "depth": 2, "act": {"sub": "reports", "depth": 1, "instance": "pod-7"}}
    token = await guard.verify(issuer.token(issuer.claims(act=act, client_id="writer")), "files:read")
    assert (token.subject, token.agent, token.task_id, token.audience) == ("anna", "writer", "task_1", RESOURCE)
    assert token.chain == (Actor("writer"), Actor("reports", "pod-7"))
    assert token.scope == ("files:read", "files:list")
    assert token.allows("files:list")
    assert not token.allows("files:write")
    assert (await guard.authorize(f"bearer  {issuer.token(issuer.claims(aud=[RESOURCE]))} ")).agent == "reports"


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_token_that_is_not_good_is_denied_and_nothing_is_fetched_for_it(
    attack: str, guard: Guard, issuer: Issuer
) -> None:
    make, reason = ATTACKS[attack]
    with pytest.raises(Denied) as denied:
        await guard.verify(make(issuer))
    assert (denied.value.reason, denied.value.status, denied.value.error) == (reason, 401, "invalid_token")
    assert not [url for url in issuer.asked if "evil" in url]


@given(st.data())
def test_a_letter_of_a_token_changed_is_never_another_token(data: st.DataObject) -> None:
    """Whatever is changed: it is denied, or (unused bits of base64) it is the very same token."""
    issuer = Issuer(FakeWorld())
    good = issuer.token()
    place = data.draw(st.integers(0, len(good) - 1))
    other = data.draw(st.characters(codec="latin-1"))
    changed = good[:place] + other + good[place + 1 :]

    async def both() -> None:
        guard = issuer.guard()
        with suppress(Denied):
            assert await guard.verify(changed) == await guard.verify(good)

    asyncio.run(both())


async def test_leeway_lets_a_late_clock_pass_but_never_beyond_the_task(issuer: Issuer, world: FakeWorld) -> None:
    now = int(world.now())
    late = issuer.token(issuer.claims(exp=now - 3))
    last = issuer.token(issuer.claims(exp=now + 2, task={"id": "task_1", "exp": now + 2}))
    guard = issuer.guard(leeway=5)
    assert (await guard.verify(late)).agent == "reports"
    assert (await guard.verify(last)).agent == "reports"
    world.clock.advance(2)
    for token in (late, last):
        with pytest.raises(Denied):
            await guard.verify(token)
    with pytest.raises(Denied):
        await issuer.guard(leeway=0).verify(late)


@pytest.mark.parametrize("depth", [1, 2, 5])
async def test_a_chain_deeper_than_is_taken_is_denied(issuer: Issuer, depth: int) -> None:
    act: dict[str, Any] | None = None
    for number in range(depth + 1):
        act = {"sub": f"agent-{number}", "depth": number + 1, **({"act": act} if act else {})}
    token = issuer.token(issuer.claims(act=act, client_id=f"agent-{depth}"))
    with pytest.raises(Denied) as denied:
        await issuer.guard(max_depth=depth).verify(token)
    assert denied.value.reason == "depth"
    assert len((await issuer.guard(max_depth=depth + 1).verify(token)).chain) == depth + 1


async def test_a_scope_that_is_lacking_is_named(guard: Guard, issuer: Issuer) -> None:
    with pytest.raises(Denied) as denied:
        await guard.verify(issuer.token(), "files:write")
    assert denied.value.status == 403
    assert denied.value.challenge() == (
        'Bearer error="insufficient_scope", error_description="The token does not hold the scope needed.", '
        'scope="files:write"'
    )


@pytest.mark.parametrize("header", [None, "", "  ", "Basic YTpi", "Bearer", "bearer ", "Token x"])
async def test_a_request_without_a_bearer_token_is_told_that_it_takes_one(guard: Guard, header: str | None) -> None:
    with pytest.raises(Denied) as denied:
        await guard.authorize(header, "files:read")
    assert denied.value.status == 401
    assert denied.value.reason in ("no_token", "malformed")


async def test_a_high_risk_token_is_asked_about_and_denied_as_soon_as_it_is_revoked(issuer: Issuer) -> None:
    token = issuer.token(issuer.claims(introspect_required=True))
    guard = issuer.asking()
    assert (await guard.verify(token)).introspect_required
    issuer.active = False
    with pytest.raises(Denied) as denied:
        await guard.verify(token)
    assert (denied.value.reason, denied.value.status) == ("inactive", 401)
    assert (await guard.verify(issuer.token())).agent == "reports"
    with pytest.raises(Denied):
        await issuer.asking(introspect_always=True).verify(issuer.token())


@pytest.mark.parametrize(
    "said",
    [
        httpx2.Response(500), httpx2.Response(401, json={"error": "invalid_client"}), httpx2.Response(200, text="yes"),
        httpx2.Response(302, headers={"location": "https://evil.test"}), {"active": "true"}, {"active": 1}, {},
        {"active": True, "sub": "eve"}, {"active": True, "jti": "tok_2"},
    ],
)  # fmt: skip
async def test_an_answer_that_is_not_clearly_yes_is_never_yes(issuer: Issuer, said: Any) -> None:
    issuer.active = said
    with pytest.raises(Denied) as denied:
        await issuer.asking().verify(issuer.token(issuer.claims(introspect_required=True)))
    assert (denied.value.error, denied.value.status) == ("temporarily_unavailable", 503)
    assert denied.value.challenge() is None


@pytest.mark.parametrize("value", [True, 1, "false", {}])
async def test_without_credentials_a_high_risk_token_is_not_taken(guard: Guard, issuer: Issuer, value: object) -> None:
    with pytest.raises(Denied) as denied:
        await guard.verify(issuer.token(issuer.claims(introspect_required=value)))
    assert denied.value.reason == "no_credentials"


async def test_a_log_names_the_person_and_the_agent_and_nothing_of_the_token(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "onbe_client.guard")
    guard = issuer.guard()
    good, long = issuer.token(), issuer.token(issuer.claims(sub="anna\n" + "A" * 200))
    await guard.verify(good)
    await guard.verify(long)
    for bad in (issuer.token(key=OTHER), f"{good}x"):
        with pytest.raises(Denied):
            await guard.verify(bad)
    assert "sub anna, act.sub reports" in caplog.text
    assert "A" * 40 not in caplog.text
    assert not [record for record in caplog.records if "\n" in record.getMessage()]
    assert not [piece for piece in good.split(".") if piece in caplog.text]


def test_a_guard_that_could_not_work_is_not_made() -> None:
    key = agent_key().as_dict(private=True)
    wrong: list[Callable[[], Guard]] = [
        lambda: Guard("http://onbe.test", RESOURCE),
        lambda: Guard(ISSUER, ""),
        lambda: Guard(ISSUER, RESOURCE, leeway=61),
        lambda: Guard(ISSUER, RESOURCE, leeway=-1),
        lambda: Guard(ISSUER, RESOURCE, max_depth=0),
        lambda: Guard(ISSUER, RESOURCE, agent_id="files"),
        lambda: Guard(ISSUER, RESOURCE, key=key),
        lambda: Guard(ISSUER, RESOURCE, introspect_always=True),
    ]
    for make in wrong:
        with pytest.raises(Misconfigured):
            make()
