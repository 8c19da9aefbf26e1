"""Every reason for which a token is not given, provoked over HTTP: its error, and its record in the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.behaviour.onbe.world import ISSUER, OTHER_TOOL, TOOL, World, make_key

from onbe import names
from onbe.drivers.sponsors.protocol import CannotAnswer
from onbe.grants import refusals as of_grants
from onbe.tasks import refusals as of_tasks
from onbe.tokens import refusals as of_tokens

Try = Callable[[World], Awaitable[httpx2.Response]]
STRANGERS = {
    "malformed_request",
    "unsupported_grant",
    "unsupported_token_type",
    "resource_malformed",
    "scope_malformed",
}


async def grant_of(world: World, agent: str = "scribe", **form: Any) -> str:
    return str((await world.begin(agent, **form))["refresh_token"])


async def helped(world: World) -> dict[str, Any]:
    """A task of `boss`, which may delegate to `helper`."""
    for agent in ("boss", "helper"):
        await world.register(agent, max_delegation_depth=2)
    return await world.begin("boss")


async def end(world: World, task: str, reason: str) -> None:
    await world.sql(
        "UPDATE tasks SET ended_at = now(), \"end\" = 'revoked', end_reason = %(reason)s WHERE id = %(task)s",
        task=task,
        reason=reason,
    )


def with_assertion(**claims: Any) -> Try:
    return lambda world: world.exchange("scribe", actor_token=world.assertion("scribe", **claims))


def with_subject(**claims: Any) -> Try:
    return lambda world: world.exchange("scribe", subject_token=world.subject("ada", **claims))


def with_form(**form: Any) -> Try:
    return lambda world: world.exchange("scribe", **form)


async def replayed(world: World) -> httpx2.Response:
    assertion = world.assertion("scribe")
    assert (await world.exchange("scribe", actor_token=assertion)).status_code == 200
    return await world.exchange("scribe", actor_token=assertion)


async def without_keys(world: World) -> httpx2.Response:
    await world.register("far", jwks=None, jwks_uri="https://nowhere.example/jwks")
    return await world.exchange("far")


async def with_keys_of_nobody(world: World) -> httpx2.Response:
    del world.keys.sets["https://id.example/realms/main"]
    return await world.exchange("scribe")


async def of_a_service_account(world: World) -> httpx2.Response:
    return await world.exchange("scribe", subject_token=world.subject("robot", client_id="scribe"))


async def altered_task_token(world: World) -> httpx2.Response:
    token = (await helped(world))["access_token"]
    return await world.delegate("helper", token[:-10] + "AAAAAAAAAA")


async def old_task_token(world: World) -> httpx2.Response:
    given = await helped(world)
    world.later(300)
    return await world.delegate("helper", given["access_token"])


async def revoked_task_token(world: World) -> httpx2.Response:
    given = await helped(world)
    await world.sql(
        "INSERT INTO revoked_tokens VALUES (%(jti)s, %(task)s, now(), 'revoked_by_agent', now() + interval '1 h')",
        jti=world.claims(given)["jti"],
        task=given["task_id"],
    )
    return await world.delegate("helper", given["access_token"])


async def delegated_from_what_ended(world: World) -> httpx2.Response:
    given = await helped(world)
    await end(world, given["task_id"], "task_killed")
    return await world.delegate("helper", given["access_token"])


async def delegated_too_deep(world: World) -> httpx2.Response:
    given = await helped(world)
    await world.register("third", max_delegation_depth=5)
    child = await world.delegate("helper", given["access_token"])
    return await world.delegate("third", child.json()["access_token"])


async def delegated_to_itself(world: World) -> httpx2.Response:
    return await world.delegate("boss", (await helped(world))["access_token"])


async def of_another_agent(world: World) -> httpx2.Response:
    await world.register("thief")
    return await world.refresh("thief", await grant_of(world))


async def after(world: World, seconds: float) -> httpx2.Response:
    grant = await grant_of(world)
    world.later(seconds)
    return await world.refresh("scribe", grant)


async def of_what_ended(world: World, reason: str) -> httpx2.Response:
    given = await world.begin("scribe")
    await end(world, given["task_id"], reason)
    return await world.refresh("scribe", given["refresh_token"])


async def once_changed(world: World, change: Any, **form: Any) -> httpx2.Response:
    grant = await grant_of(world)
    await world.sql(change)
    return await world.refresh("scribe", grant, **form)


async def with_person(world: World, state: Any) -> httpx2.Response:
    grant = await grant_of(world)
    world.later(31)
    world.person("ada", state)
    return await world.refresh("scribe", grant)


async def with_silent_directory(world: World) -> httpx2.Response:
    grant = await grant_of(world)
    world.later(31)
    world.sponsors.trouble = CannotAnswer("it is away")
    return await world.refresh("scribe", grant)


async def narrowed(world: World, **form: Any) -> httpx2.Response:
    return await world.refresh("scribe", await grant_of(world, scope="docs:read"), **form)


STRANGE = make_key(kid="scribe-1")
CASES: list[tuple[str, int, str, Try]] = [
    ("malformed_request", 400, "invalid_request", with_form(subject_token=None)),
    ("unsupported_grant", 400, "unsupported_grant_type", with_form(grant_type="password")),
    ("unsupported_token_type", 400, "invalid_request", with_form(subject_token_type="urn:x")),
    ("resource_malformed", 400, "invalid_target", with_form(resource="tool")),
    ("scope_malformed", 400, "invalid_scope", with_form(scope='docs:read"')),
    ("assertion_malformed", 401, "invalid_client", with_form(actor_token="x.y.z")),
    ("assertion_algorithm", 401, "invalid_client", with_assertion(key=make_key("RS256", "scribe-1"))),
    ("assertion_key_unknown", 401, "invalid_client", with_assertion(header={"kid": "other"})),
    ("assertion_signature", 401, "invalid_client", with_assertion(key=STRANGE)),
    ("assertion_keys_unavailable", 503, "temporarily_unavailable", without_keys),
    ("assertion_issuer", 401, "invalid_client", with_assertion(sub="other")),
    ("assertion_audience", 401, "invalid_client", with_assertion(aud=ISSUER + "/")),
    ("assertion_expired", 401, "invalid_client", with_assertion(exp=1)),
    ("assertion_too_long", 401, "invalid_client", with_assertion(exp=253402300799)),
    ("assertion_not_yet", 401, "invalid_client", with_assertion(nbf=253402300799)),
    ("assertion_no_jti", 401, "invalid_client", with_assertion(jti=None)),
    ("assertion_instance", 401, "invalid_client", with_assertion(instance="")),
    ("assertion_replayed", 401, "invalid_client", replayed),
    ("subject_malformed", 400, "invalid_request", with_form(subject_token="x")),
    ("subject_algorithm", 400, "invalid_request", with_subject(key=make_key("RS256", "provider"))),
    ("subject_key_unknown", 400, "invalid_request", with_subject(header={"kid": "other"})),
    ("subject_signature", 400, "invalid_request", with_subject(key=make_key(kid="provider"))),
    ("subject_keys_unavailable", 503, "temporarily_unavailable", with_keys_of_nobody),
    ("subject_issuer", 400, "invalid_request", with_subject(iss="https://id.example")),
    ("subject_audience", 400, "invalid_request", with_subject(aud="else")),
    ("subject_expired", 400, "invalid_request", with_subject(exp=1)),
    ("subject_not_yet", 400, "invalid_request", with_subject(nbf=253402300799)),
    ("subject_nameless", 400, "invalid_request", with_subject(sub=None)),
    ("subject_is_agent", 400, "invalid_request", of_a_service_account),
    ("parent_malformed", 400, "invalid_request", altered_task_token),
    ("parent_expired", 400, "invalid_request", old_task_token),
    ("token_revoked", 400, "invalid_request", revoked_task_token),
    ("parent_revoked", 400, "access_denied", delegated_from_what_ended),
    ("delegation_too_deep", 400, "access_denied", delegated_too_deep),
    ("delegation_to_itself", 400, "access_denied", delegated_to_itself),
    ("scope_empty", 400, "invalid_scope", with_form(scope="mail:read")),
    ("audience_not_allowed", 400, "invalid_target", with_form(resource=OTHER_TOOL)),
    ("grant_not_found", 400, "invalid_grant", of_another_agent),
    ("task_revoked", 400, "access_denied", lambda world: of_what_ended(world, "task_killed")),
    ("parent_revoked", 400, "access_denied", lambda world: of_what_ended(world, "parent_revoked")),
    ("task_expired", 400, "access_denied", lambda world: after(world, 1800)),
    ("task_ending", 400, "access_denied", lambda world: after(world, 1795)),
    ("sponsor_disabled", 400, "access_denied", lambda world: with_person(world, "disabled")),
    ("sponsor_not_found", 400, "access_denied", lambda world: with_person(world, "not_found")),
    ("sponsor_status_unavailable", 503, "temporarily_unavailable", with_silent_directory),
    (
        "sponsor_blocked", 400, "access_denied",
        lambda world: once_changed(world, """UPDATE sponsors SET blocks = '{"admin": {}}'"""),
    ),
    ("audience_mismatch", 400, "invalid_target", lambda world: narrowed(world, resource=OTHER_TOOL)),
    ("scope_widened", 400, "invalid_scope", lambda world: narrowed(world, scope="docs:read docs:write")),
    ("agent_disabled", 400, "access_denied", lambda world: once_changed(world, "UPDATE agents SET enabled = false")),
    (
        "scope_not_allowed", 400, "invalid_scope",
        lambda world: once_changed(world, "UPDATE agents SET allowed_scopes = '{docs:write}'", scope="docs:read"),
    ),
    (
        "audience_not_allowed", 400, "invalid_target",
        lambda world: once_changed(world, "UPDATE agents SET allowed_audiences = '{https://else.example}'"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "status", "error", "attempt"), CASES, ids=[case[0] for case in CASES])
async def test_a_refusal_has_its_error_and_its_record(
    world: World, reason: str, status: int, error: str, attempt: Try
) -> None:
    await world.register("scribe")
    answer = await attempt(world)
    body = answer.json()
    assert (answer.status_code, body["error"]) == (status, error), body
    assert ("reason" in body) is (error == "access_denied")
    assert body.get("reason", reason) == reason
    assert set(body) <= {"error", "error_description", "reason"}
    assert answer.headers["cache-control"] == "no-store"
    assert ("retry-after" in answer.headers) is (status == 503)
    last = (await world.ledger("token.exchange", "token.refresh"))[-1]
    assert last["outcome"] == reason
    assert (last["via"] is None) is (
        reason in STRANGERS or (reason.startswith("assertion_") and reason not in NAMES_SOMEBODY)
    )


NAMES_SOMEBODY = {
    "assertion_issuer", "assertion_audience", "assertion_expired", "assertion_too_long", "assertion_not_yet",
    "assertion_no_jti", "assertion_instance", "assertion_replayed",
}  # fmt: skip
"""Those of an assertion whose signature holds."""


def test_every_reason_of_these_nouns_is_provoked_here_or_elsewhere() -> None:
    elsewhere = {"subject_type": "a setting; below", "task_unknown": "the admin API's"}
    ours = {
        kind.code
        for module in (of_grants, of_tasks, of_tokens)
        for kind in vars(module).values()
        if hasattr(kind, "sentence")
    }
    assert ours - {case[0] for case in CASES} == set(elsewhere)


async def test_a_sponsor_check_happens_at_an_exchange_too(world: World) -> None:
    await world.register("scribe")
    for state in ("disabled", "not_found"):
        world.person("ada", state)
        answer = await world.exchange("scribe")
        assert (answer.json()["error"], answer.json()["reason"]) == ("access_denied", f"sponsor_{state}")
    world.sponsors.trouble = CannotAnswer("away")
    assert (await world.exchange("scribe")).status_code == 503
    world.sponsors.trouble = None
    world.person("ada")
    await world.begin("scribe")
    await world.sql("""UPDATE sponsors SET blocks = '{"scim": {}}'""")
    asked = len(world.sponsors.asked)
    assert (await world.exchange("scribe")).json()["reason"] == "sponsor_blocked"
    assert len(world.sponsors.asked) == asked, "whoever is blocked here is not asked about"
    assert [outcome for _, outcome in await world.outcomes()] == [
        "sponsor_disabled", "sponsor_not_found", "sponsor_status_unavailable", "ok", "sponsor_blocked",
    ]  # fmt: skip


async def test_every_denial_spends_the_assertion_and_a_stranger_spends_nothing(world: World) -> None:
    await world.register("scribe")
    assertion = world.assertion("scribe")
    assert (await world.exchange("scribe", actor_token=assertion, resource=OTHER_TOOL)).status_code == 400
    again = await world.exchange("scribe", actor_token=assertion)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_client")
    burnt = world.assertion("scribe", jti="victim", key=STRANGE)
    assert (await world.exchange("scribe", actor_token=burnt)).status_code == 401
    assert (await world.exchange("scribe", actor_token=world.assertion("scribe", jti="victim"))).status_code == 200
    await world.register("other")
    assert (await world.exchange("other", actor_token=world.assertion("other", jti="victim"))).status_code == 200


async def test_an_assertion_stays_used_up_for_as_long_as_it_could_be_valid(world: World) -> None:
    await world.register("scribe")
    assertion = world.assertion("scribe", exp=int(world.clock.now().timestamp()) + 300)
    assert (await world.exchange("scribe", actor_token=assertion)).status_code == 200
    (row,) = await world.rows("SELECT until FROM assertions")
    assert row["until"] >= world.clock.now() + timedelta(seconds=360)
    world.later(359)
    assert (await world.exchange("scribe", actor_token=assertion)).status_code == 401
    assert (await world.ledger())[-1]["outcome"] == "assertion_replayed"


async def test_strangers_are_recorded_once_a_reason_and_minute_and_counted(world: World) -> None:
    await world.register("scribe")
    for _ in range(5):
        await world.exchange("scribe", actor_token="x.y.z")
        await world.exchange("scribe", grant_type="password")
    assert sorted(await world.outcomes()) == [
        ("token.exchange", "assertion_malformed"),
        ("token.exchange", "unsupported_grant"),
    ]
    world.later(60)
    await world.exchange("scribe", actor_token="x.y.z")
    assert len(await world.ledger()) == 3
    counted = await world.rows("SELECT reason, count FROM strangers ORDER BY since, reason")
    assert [(row["reason"], row["count"]) for row in counted] == [
        ("assertion_malformed", 5), ("unsupported_grant", 5), ("assertion_malformed", 1),
    ]  # fmt: skip


async def test_what_an_agent_was_refused_stands_on_the_record_and_no_credential_does(world: World) -> None:
    await world.register("scribe")
    given = await world.begin("scribe")
    await world.refresh("scribe", given["refresh_token"], scope="docs:read admin", resource=TOOL)
    last = (await world.ledger())[-1]
    assert (last["actor"], last["via"], last["task"]) == ("ada", "scribe", given["task_id"])
    assert last["arguments"] == {"resource": TOOL, "scope": "docs:read admin"}
    text = str(await world.ledger())
    assert given["refresh_token"] not in text
    assert given["access_token"] not in text
    assert names.GRANT_PREFIX not in text
    assert "eyJ" not in text
