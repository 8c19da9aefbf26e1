"""An exchange begins a task, and says what the seed says."""

from __future__ import annotations

from tests.behaviour.onbe.world import ISSUER, TOOL, World

from onbe import names


async def test_an_exchange_begins_a_task_and_gives_a_token_and_a_grant(world: World) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    claims = world.claims(given)
    now = int(world.clock.now().timestamp())
    assert given["issued_token_type"] == names.ISSUED_AS
    assert (given["token_type"], given["expires_in"], given["scope"]) == ("Bearer", 300, "docs:read docs:write")
    assert given["refresh_token"].startswith("task_grant_")
    assert given["task_expires_at"] == "2026-01-02T03:34:05Z"
    assert claims == {
        "iss": ISSUER,
        "sub": "ada",
        "aud": TOOL,
        "iat": now,
        "exp": now + 300,
        "jti": claims["jti"],
        "scope": "docs:read docs:write",
        "client_id": "scribe",
        "act": {"sub": "scribe", "depth": 1},
        "task": {"id": given["task_id"], "exp": now + 1800, "sponsor": "ada"},
    }
    assert claims["jti"].startswith("tok_")
    (record,) = await world.ledger()
    assert (record["action"], record["outcome"], record["actor"], record["via"], record["task"]) == (
        "token.exchange", "ok", "ada", "scribe", given["task_id"],
    )  # fmt: skip


async def test_a_refresh_gives_a_new_token_for_the_same_task_and_keeps_the_grant(world: World) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    world.later(180)
    answer = await world.refresh("scribe", given["refresh_token"])
    assert answer.status_code == 200, answer.text
    again = answer.json()
    assert "refresh_token" not in again
    assert again["task_id"] == given["task_id"]
    first, second = world.claims(given), world.claims(again)
    assert first["jti"] != second["jti"]
    assert {**first, "jti": 0, "iat": 0, "exp": 0} == {**second, "jti": 0, "iat": 0, "exp": 0}


async def test_a_task_token_in_the_hands_of_another_agent_begins_a_child(world: World) -> None:
    await world.register("boss", max_delegation_depth=2)
    await world.register("helper", max_delegation_depth=2, allowed_scopes=["docs:read"])
    given = await world.begin("boss")
    answer = await world.delegate("helper", given["access_token"])
    assert answer.status_code == 200, answer.text
    claims = world.claims(answer.json())
    assert claims["act"] == {"sub": "helper", "depth": 2, "act": {"sub": "boss", "depth": 1}}
    assert claims["scope"] == "docs:read"
    again = await world.refresh("helper", answer.json()["refresh_token"])
    assert again.status_code == 200, again.text
