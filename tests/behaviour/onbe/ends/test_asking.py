"""`POST /oauth2/introspect`: who may ask, what is told of which token, and what is not. Source: RFC 7662."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from tests.behaviour.onbe.ends.asking import (
    ASKING,
    BARE,
    administrator,
    introspect,
    revoke,
    settings_with_admin,
    standing,
)  # fmt: skip
from tests.behaviour.onbe.world import ADMIN_KEY, ISSUER, TOOL, World, make_key, sign, world_of

from keel.db import Json
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe import names
from onbe.credentials.actions import Known
from onbe.credentials.model import Ask
from onbe.directory.model import Registration
from onbe.tasks import jobs
from onbe.tokens.model import Assertion


@pytest.fixture
async def place(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[World]:
    """A world with an administrator, an agent, a sub-agent and a tool server in it."""
    async with world_of(onbe_database, clock, settings_with_admin()) as world:
        for agent in ("scribe", "helper"):
            await world.register(agent, max_delegation_depth=3)
        await world.register("tool")
        yield world


async def test_a_token_that_is_good_is_told_with_all_that_it_says(place: World) -> None:
    given = await place.begin("scribe", actor_token=place.assertion("scribe", instance="pod-7"))
    claims = place.claims(given)
    assert await standing(place, given["access_token"]) == {
        "active": True,
        "token_type": "Bearer",
        "scope": "docs:read docs:write",
        "client_id": "scribe",
        "sub": "ada",
        "aud": TOOL,
        "iss": ISSUER,
        "exp": claims["exp"],
        "iat": claims["iat"],
        "jti": claims["jti"],
        "act": {"sub": "scribe", "instance": "pod-7", "depth": 1},
        "task": {"id": given["task_id"], "exp": claims["task"]["exp"], "sponsor": "ada"},
    }
    child = (await place.delegate("helper", given["access_token"])).json()
    assert (await standing(place, child["access_token"]))["act"]["act"]["sub"] == "scribe"


async def test_a_token_of_high_risk_says_so_when_it_is_asked_after(place: World) -> None:
    await place.sql("UPDATE agents SET high_risk_audiences = allowed_audiences WHERE agent_id = 'scribe'")
    given = await place.begin("scribe")
    assert (await standing(place, given["access_token"]))["introspect_required"] is True


async def test_what_is_no_token_of_ours_that_lives_is_inactive_and_nothing_more_is_told(place: World) -> None:
    given = await place.begin("scribe")
    other = make_key()
    header = {"typ": "at+jwt"}
    garbage = [
        given["refresh_token"],
        given["access_token"][:-8] + "AAAAAAAA",
        given["access_token"].rsplit(".", 1)[0] + ".",
        sign(place.claims(given), other, **header),
        place.subject("ada"),
        place.assertion("scribe"),
        "garbage",
        "..",
        "☃",
        "x" * 40_000,
    ]
    assert [await standing(place, one) for one in garbage] == [BARE] * len(garbage)
    assert len({(await introspect(place, "tool", one)).content for one in garbage}) == 1


async def test_a_token_is_over_at_its_last_second_also_when_its_task_was_revoked(place: World) -> None:
    given, revoked = await place.begin("scribe"), await place.begin("scribe")
    await revoke(place, "scribe", revoked["refresh_token"])
    place.later(place.claims(given)["exp"] - place.clock.now().timestamp() - 1)
    assert (await standing(place, given["access_token"]))["active"] is True
    assert "revoked_at" in await standing(place, revoked["access_token"])
    place.later(1)
    assert await standing(place, given["access_token"]) == BARE
    assert await standing(place, revoked["access_token"]) == BARE


async def test_a_token_of_a_task_that_the_sweeper_ended_is_inactive_and_was_not_revoked(place: World) -> None:
    given = await place.begin("scribe")
    await place.sql("UPDATE tasks SET expires_at = created_at + interval '1 second'")
    place.later(2)
    await jobs.tick(place.deps)
    assert await standing(place, given["access_token"]) == BARE


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("DELETE", "/admin/tasks/{task}", None, "task_killed"),
        ("DELETE", "/admin/agents/scribe/tasks", None, "agent_killed"),
        ("DELETE", "/admin/sponsors/ada/tasks", None, "sponsor_killed"),
        ("PUT", "/admin/sponsors/ada/block", {"reason": "gone"}, "sponsor_blocked"),
    ],
)
async def test_what_an_administrator_ended_is_told_with_the_reason(
    place: World, method: str, path: str, body: Any, reason: str
) -> None:
    given = await place.begin("scribe")
    child = (await place.delegate("helper", given["access_token"])).json()
    place.later(3)
    done = await administrator(place, method, path.format(task=given["task_id"]), json=body)
    assert done.status_code == 200, done.text
    told = {"active": False, "revoked_at": int(place.clock.now().timestamp())}
    assert await standing(place, given["access_token"]) == told | {"revocation_reason": reason}
    below = reason if reason.startswith("sponsor") else "parent_revoked"
    assert await standing(place, child["access_token"]) == told | {"revocation_reason": below}
    refused = (await place.refresh("scribe", given["refresh_token"])).json()
    assert (refused["error"], refused["reason"]) == ("access_denied", "task_revoked")


async def test_a_token_is_inactive_while_an_agent_on_its_way_is_disabled(place: World) -> None:
    given = await place.begin("scribe")
    child = (await place.delegate("helper", given["access_token"])).json()
    await place.sql("UPDATE agents SET enabled = false WHERE agent_id = 'scribe'")
    assert await standing(place, given["access_token"]) == BARE
    assert await standing(place, child["access_token"]) == BARE
    await place.sql("UPDATE agents SET enabled = true")
    assert (await standing(place, child["access_token"]))["active"] is True


async def test_any_agent_may_ask_and_so_may_the_administrator(place: World) -> None:
    given = await place.begin("scribe")
    assert (await standing(place, given["access_token"], "helper"))["active"] is True
    form = {"token": given["access_token"]}
    asked = await administrator(place, "POST", names.INTROSPECT_PATH, data=form)
    assert asked.json() == await standing(place, given["access_token"])
    asked = await administrator(place, "POST", names.INTROSPECT_PATH, data={"token": "garbage"})
    assert asked.json() == BARE
    assert await place.ledger("token.introspect") == []


async def test_an_assertion_for_asking_alone_is_good_again_and_for_nothing_else(place: World) -> None:
    given = await place.begin("scribe")
    asking = place.assertion("scribe", aud=ASKING)
    for _ in range(3):
        answer = await introspect(place, "scribe", given["access_token"], client_assertion=asking)
        assert answer.json()["active"] is True
    assert (await place.exchange("scribe", actor_token=asking)).status_code == 401
    assert (await place.refresh("scribe", given["refresh_token"], client_assertion=asking)).status_code == 401
    assert (await revoke(place, "scribe", given["refresh_token"], client_assertion=asking)).status_code == 401
    place.later(181)
    again = await introspect(place, "scribe", given["access_token"], client_assertion=asking)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_client")


async def test_an_assertion_that_is_known_already_counts_no_longer_than_its_agent_is_as_it_was(place: World) -> None:
    given = await place.begin("scribe")
    asking = place.assertion("tool", aud=ASKING)

    async def asked(**form: Any) -> tuple[int, str | None]:
        answer = await introspect(place, "tool", given["access_token"], client_assertion=asking, **form)
        return answer.status_code, answer.json().get("error")

    for _ in range(3):
        assert await asked() == (200, None)
    assert await asked(client_id="scribe") == (401, "invalid_client")
    assert await asked(client_id="tool") == (200, None)
    await place.sql("UPDATE agents SET enabled = false WHERE agent_id = 'tool'")
    assert await asked() == (400, "access_denied")
    await place.sql("UPDATE agents SET enabled = true WHERE agent_id = 'tool'")
    assert await asked() == (200, None)
    other = make_key(kid="tool-1").as_dict(private=False)
    await place.sql("UPDATE agents SET jwks = %(jwks)s WHERE agent_id = 'tool'", jwks=Json({"keys": [other]}))
    assert await asked() == (401, "invalid_client")
    await place.sql("DELETE FROM agents WHERE agent_id = 'tool'")
    assert await asked() == (401, "invalid_client")


async def test_no_more_assertions_are_known_than_there_is_room_for(place: World) -> None:
    known, agent = Known(most=3), Registration(**(await place.rows("SELECT * FROM agents LIMIT 1"))[0])
    now = place.clock.now()
    asks = [Ask(f"assertion {n}", "token") for n in range(5)]
    for ask in asks:
        known.keep(ask, Assertion("scribe", "j", now + timedelta(seconds=60), None, ASKING), agent)
    assert [known.find(ask, now) is not None for ask in asks] == [False, False, True, True, True]
    assert known.find(asks[4], now + timedelta(seconds=60)) is None
    assert known.find(Ask(None, "token"), now) is None


async def test_an_assertion_that_could_be_an_exchanges_is_used_up_by_a_question(place: World) -> None:
    given = await place.begin("scribe")
    asking = place.assertion("scribe")
    assert (await introspect(place, "scribe", given["access_token"], client_assertion=asking)).status_code == 200
    again = await introspect(place, "scribe", given["access_token"], client_assertion=asking)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_client")
    assert (await place.exchange("scribe", actor_token=asking)).status_code == 401
    (told,) = await place.ledger("token.introspect")
    assert (told["via"], told["outcome"]) == ("scribe", "assertion_replayed")


async def test_a_disabled_agent_may_not_ask(place: World) -> None:
    given = await place.begin("scribe")
    await place.sql("UPDATE agents SET enabled = false WHERE agent_id = 'tool'")
    answer = await introspect(place, "tool", given["access_token"])
    assert (answer.status_code, answer.json()["reason"]) == (400, "agent_disabled")
    (told,) = await place.ledger("token.introspect")
    assert (told["via"], told["outcome"]) == ("tool", "agent_disabled")


async def test_a_stranger_learns_nothing_of_a_token_whatever_it_is(place: World) -> None:
    given, revoked = await place.begin("scribe"), await place.begin("scribe")
    await revoke(place, "scribe", revoked["refresh_token"])
    wrong: list[dict[str, Any]] = [
        {"client_assertion": place.assertion("scribe", key=make_key(kid="scribe-1"))},
        {"client_assertion": place.assertion("nobody", key=make_key())},
        {"client_assertion": place.assertion("nobody", key=make_key(), iss="a\0b", sub="a\0b")},
        {"client_assertion": place.assertion("scribe", aud="https://elsewhere.example")},
        {"client_assertion": place.assertion("scribe", exp=1_600_000_000)},
        {"client_assertion": "nothing"},
    ]
    answers = [
        await introspect(place, "scribe", token, **form)
        for token in (given["access_token"], revoked["access_token"], given["refresh_token"], "garbage")
        for form in wrong
    ]
    assert {one.status_code for one in answers} == {401}
    assert len({one.content for one in answers}) == 1
    assert "active" not in answers[0].text


async def test_a_key_that_is_not_the_administrators_is_a_strangers(place: World) -> None:
    given = await place.begin("scribe")
    form = {"token": given["access_token"]}
    answers = [
        await place.http.post(names.INTROSPECT_PATH, data=form, headers={"Authorization": shown})
        for shown in ("Bearer " + "w" * 40, "Bearer", "Basic " + ADMIN_KEY, ADMIN_KEY, f"Bearer {ADMIN_KEY}x")
    ]
    assert {(one.status_code, one.json()["error"]) for one in answers} == {(401, "invalid_client")}
    assert [row["outcome"] for row in await place.ledger("token.introspect")] == ["admin_key_wrong"]
    counted = await place.rows("SELECT count FROM strangers WHERE reason = 'admin_key_wrong'")
    assert counted == [{"count": 5}]


async def test_without_a_configured_key_no_bearer_is_let_in(world: World) -> None:
    answer = await world.http.post(names.INTROSPECT_PATH, data={"token": "x"}, headers={"Authorization": "Bearer "})
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_a_key_and_an_assertion_at_once_are_one_too_many(place: World) -> None:
    form = {"token": "x", "client_assertion": place.assertion("tool"), "client_assertion_type": names.ASSERTION_TYPE}
    answer = await administrator(place, "POST", names.INTROSPECT_PATH, data=form)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_no_answer_about_a_token_is_kept_by_anybody(place: World) -> None:
    given = await place.begin("scribe")
    answers = [
        await introspect(place, "tool", given["access_token"]),
        await introspect(place, "tool", given["access_token"], client_assertion="x"),
        await revoke(place, "scribe", given["refresh_token"]),
    ]
    assert {one.headers["cache-control"] for one in answers} == {"no-store"}


async def test_without_its_database_nothing_is_said_of_a_token_and_nothing_revoked(place: World) -> None:
    given = await place.begin("scribe")
    await place.deps.db.__aexit__(None, None, None)
    answers = [
        await introspect(place, "tool", given["access_token"]),
        await introspect(place, "tool", given["access_token"], client_assertion="nothing"),
        await administrator(place, "POST", names.INTROSPECT_PATH, data={"token": given["access_token"]}),
        await revoke(place, "scribe", given["refresh_token"]),
        await revoke(place, "scribe", given["access_token"]),
    ]
    assert {(one.status_code, one.json()["error"]) for one in answers} == {(503, "temporarily_unavailable")}
    assert all("retry-after" in one.headers for one in answers)
