"""`POST /oauth2/revoke`: what an agent ends, what it cannot, and what it learns, which is nothing. Source: RFC 7009."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.behaviour.onbe.ends.asking import revoke, standing
from tests.behaviour.onbe.world import World, make_key

from onbe import names

DEEP = {"max_delegation_depth": 5}


def same(answers: list[httpx2.Response]) -> None:
    """All the same empty 200, to the last header."""
    assert {(one.status_code, one.content) for one in answers} == {(200, b"")}
    assert len({tuple(sorted((k, v) for k, v in one.headers.items() if k != "x-request-id")) for one in answers}) == 1


async def test_a_grant_that_is_revoked_ends_its_task_and_all_delegated_from_it(world: World) -> None:
    for agent in ("scribe", "helper", "third", "tool"):
        await world.register(agent, **DEEP)
    root = await world.begin("scribe")
    child = (await world.delegate("helper", root["access_token"])).json()
    grandchild = (await world.delegate("third", child["access_token"])).json()
    beside = await world.begin("scribe")
    same([await revoke(world, "scribe", root["refresh_token"])])
    told = {"active": False, "revoked_at": int(world.clock.now().timestamp())}
    assert await standing(world, root["access_token"]) == told | {"revocation_reason": "revoked_by_agent"}
    for below in (child, grandchild):
        assert await standing(world, below["access_token"]) == told | {"revocation_reason": "parent_revoked"}
    assert (await standing(world, beside["access_token"]))["active"] is True
    refused = [
        await world.refresh(agent, given["refresh_token"])
        for agent, given in (("scribe", root), ("helper", child), ("third", grandchild))
    ]
    assert [(one.json()["error"], one.json()["reason"]) for one in refused] == [
        ("access_denied", "task_revoked"),
        ("access_denied", "parent_revoked"),
        ("access_denied", "parent_revoked"),
    ]
    records = await world.ledger("task.revoked", "token.revoke")
    assert [(row["action"], row["actor"], row["via"], row["task"], row["outcome"]) for row in records] == [
        ("task.revoked", "ada", "scribe", root["task_id"], "ok"),
        ("task.revoked", "ada", "helper", child["task_id"], "ok"),
        ("task.revoked", "ada", "third", grandchild["task_id"], "ok"),
        ("token.revoke", "ada", "scribe", root["task_id"], "ok"),
    ]
    assert records[3]["arguments"] == {"kind": "grant", "tasks": 3}
    assert {row["arguments"]["by"] for row in records[:3]} == {"scribe"}


async def test_a_revocation_sums_up_how_often_the_task_was_renewed(world: World) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    for _ in range(5):
        assert (await world.refresh("scribe", given["refresh_token"])).status_code == 200
    await revoke(world, "scribe", given["refresh_token"])
    (told,) = await world.ledger("task.revoked")
    assert told["arguments"]["renewals"] == 5
    assert len(await world.ledger("token.refresh")) == 1


async def test_a_token_that_is_revoked_is_over_alone_and_its_task_lives(world: World) -> None:
    for agent in ("scribe", "tool"):
        await world.register(agent)
    given = await world.begin("scribe")
    renewed = (await world.refresh("scribe", given["refresh_token"])).json()
    same([await revoke(world, "scribe", given["access_token"], token_type_hint="access_token")])
    assert await standing(world, given["access_token"]) == {
        "active": False,
        "revoked_at": int(world.clock.now().timestamp()),
        "revocation_reason": "revoked_by_agent",
    }
    assert (await standing(world, renewed["access_token"]))["active"] is True
    assert (await world.refresh("scribe", given["refresh_token"])).status_code == 200
    (told,) = await world.ledger("token.revoke")
    assert (told["task"], told["actor"], told["outcome"]) == (given["task_id"], "ada", "ok")
    assert told["arguments"] == {"kind": "token", "tokens": 1, "token": world.claims(given)["jti"]}


async def test_a_token_that_was_revoked_is_delegated_no_more(world: World) -> None:
    for agent in ("scribe", "helper"):
        await world.register(agent, **DEEP)
    given = await world.begin("scribe")
    await revoke(world, "scribe", given["access_token"])
    assert (await world.delegate("helper", given["access_token"])).status_code == 400
    assert (await world.outcomes())[-1] == ("token.exchange", "token_revoked")


async def test_whatever_an_agent_brings_it_hears_the_same_and_ends_nothing_of_another(world: World) -> None:
    for agent in ("scribe", "other", "tool"):
        await world.register(agent)
    given = await world.begin("scribe")
    expired = await world.begin("other")
    world.later(600)
    given = await world.begin("scribe")
    own = await world.begin("other")
    await revoke(world, "other", own["refresh_token"])
    brought = {
        "another agent's grant": given["refresh_token"],
        "another agent's token": given["access_token"],
        "a grant that never was": names.GRANT_PREFIX + "A" * 43,
        "an expired token of its own": expired["access_token"],
        "a grant it revoked before": own["refresh_token"],
        "a forged token": given["access_token"][:-8] + "AAAAAAAA",
        "a person's token": world.subject("ada"),
        "a prefix": names.GRANT_PREFIX,
        "garbage": "☃ garbage",
        "dots": "..",
        "much": "x" * 40_000,
    }
    before = len(await world.ledger())
    answers = [await revoke(world, "other", token, token_type_hint="nonsense") for token in brought.values()]
    same(answers)
    assert (await standing(world, given["access_token"]))["active"] is True
    assert (await world.refresh("scribe", given["refresh_token"])).status_code == 200
    told = (await world.ledger())[before : before + len(brought)]
    assert [(row["action"], row["via"]) for row in told] == [("token.revoke", "other")] * len(brought)
    assert dict(zip(brought, (row["outcome"] for row in told), strict=True)) == {
        "another agent's grant": "grant_not_found",
        "another agent's token": "token_not_found",
        "a grant that never was": "grant_not_found",
        "an expired token of its own": "token_not_found",
        "a grant it revoked before": "ok",
        "a forged token": "token_not_found",
        "a person's token": "token_not_found",
        "a prefix": "grant_not_found",
        "garbage": "token_not_found",
        "dots": "token_not_found",
        "much": "token_not_found",
    }
    assert [row["task"] for row in told if row["outcome"] != "ok"] == [None] * (len(brought) - 1)
    assert "A" * 43 not in str(told)
    assert given["access_token"] not in str(told)


async def test_revoking_again_changes_nothing(world: World) -> None:
    await world.register("scribe")
    await world.register("tool")
    given = await world.begin("scribe")
    await revoke(world, "scribe", given["access_token"])
    first = await standing(world, given["access_token"])
    world.later(30)
    same([await revoke(world, "scribe", given["access_token"])])
    assert await standing(world, given["access_token"]) == first
    await revoke(world, "scribe", given["refresh_token"])
    ended = await standing(world, given["access_token"])
    world.later(30)
    same([await revoke(world, "scribe", given["refresh_token"])])
    assert await standing(world, given["access_token"]) == ended
    assert len(await world.ledger("task.revoked")) == 1


async def test_an_assertion_is_good_for_one_revocation_and_for_nothing_after_it(world: World) -> None:
    await world.register("scribe")
    first, second = await world.begin("scribe"), await world.begin("scribe")
    used = world.assertion("scribe")
    same([await revoke(world, "scribe", first["refresh_token"], client_assertion=used)])
    again = await revoke(world, "scribe", second["refresh_token"], client_assertion=used)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_client")
    assert (await world.exchange("scribe", actor_token=used)).status_code == 401
    assert (await world.refresh("scribe", second["refresh_token"])).status_code == 200
    assert [row["outcome"] for row in await world.ledger("token.revoke")] == ["ok", "assertion_replayed"]


async def test_an_agent_that_was_disabled_may_still_end_what_it_holds(world: World) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    await world.sql("UPDATE agents SET enabled = false")
    same([await revoke(world, "scribe", given["refresh_token"])])
    assert len(await world.ledger("task.revoked")) == 1


STRANGE: dict[str, dict[str, Any]] = {
    "no such agent": {"iss": "nobody", "sub": "nobody"},
    "a name with a NUL": {"iss": "a\0b", "sub": "a\0b"},
    "another audience": {"aud": "https://elsewhere.example"},
    "for asking alone": {"aud": "https://onbe.example/oauth2/introspect"},
    "expired": {"exp": 1_600_000_000},
    "for too long": {"exp": 2_000_000_000},
    "without jti": {"jti": None},
}


@pytest.mark.parametrize("why", STRANGE)
async def test_a_stranger_ends_nothing_and_hears_one_thing(world: World, why: str) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    wrong = world.assertion("scribe", **STRANGE[why])
    answer = await revoke(world, "scribe", given["refresh_token"], client_assertion=wrong)
    assert (answer.status_code, answer.json()) == (
        401, {"error": "invalid_client", "error_description": "The agent could not be authenticated."},
    )  # fmt: skip
    assert (await world.refresh("scribe", given["refresh_token"])).status_code == 200
    (told,) = await world.ledger("token.revoke")
    assert told["outcome"].startswith("assertion_")


async def test_a_key_that_is_not_the_agents_ends_nothing(world: World) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    forged = world.assertion("scribe", key=make_key(kid="scribe-1"))
    answers = [
        await revoke(world, "scribe", given["refresh_token"], client_assertion=forged),
        await revoke(world, "scribe", given["refresh_token"], client_assertion="a.b.c"),
        await revoke(world, "scribe", given["refresh_token"], client_assertion="nothing"),
    ]
    assert {one.status_code for one in answers} == {401}
    assert len({one.content for one in answers}) == 1
    assert await world.ledger("task.revoked") == []


@pytest.mark.parametrize("left_out", ["token", "client_assertion", "client_assertion_type"])
async def test_a_revocation_without_a_parameter_is_told_which(world: World, left_out: str) -> None:
    await world.register("scribe")
    form = {
        "token": "x",
        "client_assertion": world.assertion("scribe"),
        "client_assertion_type": names.ASSERTION_TYPE,
        left_out: None,
    }
    answer = await world.post(form, names.REVOKE_PATH)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert left_out in answer.json()["error_description"]


async def test_a_revocation_is_posted_and_nothing_else(world: World) -> None:
    assert (await world.http.get(names.REVOKE_PATH)).status_code == 405
    assert (await world.http.get(names.INTROSPECT_PATH)).status_code == 405
