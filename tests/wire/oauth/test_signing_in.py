"""A client signs in by the address alone, stays signed in, and is ended."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.unit.people.house import outcomes
from tests.wire.oauth.desk import CALLBACK, MCP, Desk, path, told
from tests.wire.web.browsing import PUBLIC

from keel.testing import FakeClock
from rift.connections import actions, jobs
from rift.connections.model import GRACE
from rift.people import actions as people
from rift.people.model import Token


async def good(desk: Desk, access: str) -> bool:
    return await people.authenticate(desk.deps, access) is not None


async def test_a_client_gets_a_token_by_its_persons_word_and_the_holder_is_its_declared_name(desk: Desk) -> None:
    client, given = await desk.signed_in(client_name=" Claude\u200b  Code\n")
    assert given["access_token"].startswith("rift_")
    assert given["refresh_token"].startswith("riftr_")
    assert (given["token_type"], given["expires_in"], given["scope"]) == ("Bearer", 3600, "rift")
    caller = await people.authenticate(desk.deps, given["access_token"])
    assert caller is not None
    assert (caller.email, caller.label) == ("ada@example.com", "mcp:Claude Code")
    assert client.startswith("client_")
    for secret in (given["access_token"], given["refresh_token"]):
        async with desk.deps.db.tx() as tx:
            for table in ("access_tokens", "refresh_tokens", "tokens", "codes", "ledger"):
                rows = await tx.rows("SELECT to_jsonb(t)::text AS text FROM " + table + " t")
                assert not [row for row in rows if secret in row["text"]]
    assert [one[2:] for one in await outcomes(desk.deps)][-3:] == [
        ("oauth register", "ok"), ("web allow client", "ok"), ("oauth sign in", "ok"),
    ]  # fmt: skip


async def test_the_answer_carries_the_state_as_it_came_and_says_who_answers(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    answer = await desk.allow(client)
    assert answer.keys() == {"code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("a state&more", PUBLIC)
    assert "state" not in await desk.allow(client, state=None)
    assert (await desk.allow(client, state=""))["state"] == ""


async def test_a_person_who_says_no_is_heard_and_nothing_is_given(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    answer = await desk.allow(await desk.register(), "deny")
    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", "a state&more", PUBLIC)
    assert "code" not in answer
    assert (await outcomes(desk.deps))[-1][2:] == ("web allow client", "access_denied")


async def test_who_is_not_signed_in_signs_in_first_and_comes_back(desk: Desk) -> None:
    client = await desk.register()
    asked = path(client)
    answer = await desk.browser.get(asked)
    assert answer.status_code == 303
    assert told(answer) == {"next": asked}


async def test_the_consent_page_tells_who_asks_where_the_answer_goes_and_who_is_signed_in(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    page = await desk.browser.get(path(await desk.register(client_name="Claude Code")))
    for shown in ("Claude Code", "this computer", CALLBACK, "ada@example.com", "Do not allow"):
        assert shown in page.text
    policy = page.headers["content-security-policy"]
    assert policy.endswith("form-action 'self' http://127.0.0.1:33418 https:")
    assert "frame-ancestors 'none'" in policy
    assert page.headers["cache-control"] == "no-store"


async def test_consent_is_asked_for_each_time(desk: Desk) -> None:
    client, _ = await desk.signed_in()
    assert (await desk.browser.get(path(client))).status_code == 200


async def test_a_refresh_token_gives_its_successor_and_the_older_access_token_stays(desk: Desk) -> None:
    client, given = await desk.signed_in()
    renewed = (await desk.renew(client, given["refresh_token"])).json()
    assert renewed["refresh_token"] != given["refresh_token"]
    assert renewed["access_token"] != given["access_token"]
    assert await good(desk, renewed["access_token"])
    assert await good(desk, given["access_token"])
    third = (await desk.renew(client, renewed["refresh_token"], resource=f"{MCP}/")).json()
    assert await good(desk, third["access_token"])


async def test_a_client_that_did_not_hear_the_answer_gets_the_same_one_within_the_grace(
    desk: Desk, clock: FakeClock
) -> None:
    client, given = await desk.signed_in()
    first = (await desk.renew(client, given["refresh_token"])).json()
    clock.advance(GRACE.total_seconds() - 1)
    again = (await desk.renew(client, given["refresh_token"])).json()
    assert (again["access_token"], again["refresh_token"]) == (first["access_token"], first["refresh_token"])
    assert again["expires_in"] == first["expires_in"] - 59
    assert await good(desk, first["access_token"])


async def test_of_many_that_renew_at_once_all_get_the_same_successor(desk: Desk) -> None:
    client, given = await desk.signed_in()
    answers = await asyncio.gather(*(desk.renew(client, given["refresh_token"]) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({(one.json()["access_token"], one.json()["refresh_token"]) for one in answers}) == 1


async def test_a_refresh_token_used_after_the_grace_ends_all_of_its_family(desk: Desk, clock: FakeClock) -> None:
    client, given = await desk.signed_in()
    renewed = (await desk.renew(client, given["refresh_token"])).json()
    clock.advance(GRACE.total_seconds())
    refused = await desk.renew(client, given["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert not await good(desk, renewed["access_token"])
    assert (await desk.renew(client, renewed["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await outcomes(desk.deps))[-2][2:] == ("oauth renew", "refresh_reused")


async def test_an_access_token_is_good_as_long_as_it_says_and_a_quiet_client_is_signed_out(
    desk: Desk, clock: FakeClock
) -> None:
    client, given = await desk.signed_in()
    clock.advance(3599)
    assert await good(desk, given["access_token"])
    clock.advance(1)
    assert not await good(desk, given["access_token"])
    renewed = (await desk.renew(client, given["refresh_token"])).json()
    clock.advance(timedelta(days=30).total_seconds())
    assert (await desk.renew(client, renewed["refresh_token"])).json()["error"] == "invalid_grant"
    await jobs.forget(desk.deps)
    assert [one.revoked_at is not None for one in await _tokens(desk)] == [True]
    async with desk.deps.db.tx() as tx:
        for table in ("access_tokens", "refresh_tokens", "codes"):
            assert await tx.rows("SELECT FROM " + table) == []


async def _tokens(desk: Desk) -> list[Token]:
    found = await people.list_tokens(desk.deps)
    assert isinstance(found, list)
    return found


async def test_a_client_signs_itself_out_with_either_secret_and_with_both_at_once(desk: Desk) -> None:
    client, given = await desk.signed_in()
    for secret in ("riftr_unknown", given["refresh_token"]):
        assert (await desk.post("revoke", {"token": secret, "client_id": "client_other"})).status_code == 200
        assert await good(desk, given["access_token"])
    assert (await desk.post("revoke", {"token": given["access_token"], "client_id": client})).status_code == 200
    assert not await good(desk, given["access_token"])
    assert (await desk.renew(client, given["refresh_token"])).json()["error"] == "invalid_grant"


async def test_who_was_put_out_gets_nothing_for_a_code_or_a_refresh_token(desk: Desk) -> None:
    client, given = await desk.signed_in()
    code = await desk.code(client)
    async with desk.deps.db.tx() as tx:
        await tx.run("UPDATE users SET disabled_at = now()")
    assert (await desk.exchange(client, code)).json()["error"] == "invalid_grant"
    assert (await desk.renew(client, given["refresh_token"])).json()["error"] == "invalid_grant"
    assert not await good(desk, given["access_token"])


async def test_clients_that_never_signed_anybody_in_are_forgotten_and_the_others_kept(
    desk: Desk, clock: FakeClock
) -> None:
    kept, _ = await desk.signed_in()
    gone = await desk.register()
    clock.advance(timedelta(days=6).total_seconds())
    await jobs.forget(desk.deps)
    assert (await desk.browser.get(path(gone))).status_code == 200
    clock.advance(timedelta(days=1, seconds=1).total_seconds())
    await jobs.forget(desk.deps)
    await desk.browser.sign_in("ada@example.com")
    assert (await desk.browser.get(path(kept))).status_code == 200
    page = await desk.browser.get(path(gone))
    assert (page.status_code, "knows no client" in page.text) == (400, True)
    assert (await desk.exchange(gone, "riftc_nothing")).json()["error"] == "invalid_client"


async def test_only_so_many_clients_are_registered_that_nobody_ever_used(
    desk: Desk, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given = await desk.signed_in()
    monkeypatch.setattr(actions, "UNUSED_MOST", 1)
    flood = await desk.register()
    full = await desk.http.post("/oauth2/register", json={"redirect_uris": [CALLBACK]})
    assert (full.status_code, full.json()["error"]) == (503, "temporarily_unavailable")
    assert int(full.headers["retry-after"]) > 0
    clock.advance(3601)
    await desk.register()  # who registers in crowds keeps nobody out for days
    assert (await desk.browser.get(path(flood))).status_code == 400
    assert "refresh_token" in given
    async with desk.deps.db.tx() as tx:
        assert len(await tx.rows("SELECT FROM clients WHERE used_at IS NOT NULL")) == 1, "who was used stays"


async def test_a_client_that_asks_while_the_database_is_away_is_told_to_come_back(desk: Desk) -> None:
    client, given = await desk.signed_in()
    await desk.deps.db.__aexit__(None, None, None)
    for answer in (
        await desk.renew(client, given["refresh_token"]),
        await desk.exchange(client, "riftc_any"),
        await desk.post("revoke", {"token": given["access_token"], "client_id": client}),
        await desk.http.post("/oauth2/register", json={"redirect_uris": [CALLBACK]}),
    ):
        assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
        assert answer.headers["retry-after"] == "5"


async def test_a_slash_at_the_end_of_the_endpoints_address_is_forgiven(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    code = await desk.code(client, resource=f"{MCP}/")
    assert (await desk.exchange(client, code, resource=f"{MCP}/")).status_code == 200
    code = await desk.code(client, resource=None)
    assert (await desk.exchange(client, code, resource=None)).status_code == 200
