"""What a client, or somebody who is none, asks wrongly: who hears of it, and that nothing comes of it."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from urllib.parse import quote

import httpx2
import pytest
from tests.unit.people.house import outcomes
from tests.wire.oauth.desk import CALLBACK, CLIENT, MCP, VERIFIER, Desk, is_redirect, path, told
from tests.wire.web.browsing import PUBLIC

from keel.testing import FakeClock
from rift.people import actions as people


async def codes(desk: Desk) -> int:
    async with desk.deps.db.tx() as tx:
        return len(await tx.rows("SELECT FROM codes"))


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/callback",
        "http://127.0.0.1:33418/other",
        "http://127.0.0.1:33418/callback/",
        "http://127.0.0.1:33418/CALLBACK",
        "http://127.0.0.1:33418/%63allback",
        "http://127.0.0.1:33418/callback?x=1",
        "http://127.0.0.1:33418/callback#",
        "http://127.0.0.1:33418/callback#x",
        "http://127.0.0.1:33418/x/../callback",
        "http://127.0.0.1:99999/callback",
        "http://127.0.0.1:/callback",
        "http://127.0.0.1:33418@evil.example/callback",
        "http://user@127.0.0.1:33418/callback",
        "http://127.0.0.1@evil.example/callback",
        "http://127.0.0.1.evil.example/callback",
        "http://127.0.0.2/callback",
        "http://localhost/callback",
        "http://localhost.evil.example/callback",
        "http://[::1]/callback",
        "HTTP://127.0.0.1/callback",
        "https://127.0.0.1/callback",
        "http://127.0.0.1\\@evil.example/callback",
        "http://127.0.0.1/callback\t",
        "//127.0.0.1/callback",
        "javascript:alert(1)//http://127.0.0.1/callback",
        "http://١٢٧.0.0.1/callback",
        "http://127.0.0.1:٨٠/callback",
        "",
    ],
)
async def test_nothing_is_sent_to_an_address_that_the_client_did_not_make_known(desk: Desk, uri: str) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    for more in ({}, {"response_type": "bad"}, {"code_challenge": None}):
        page = await desk.browser.get(path(client, redirect_uri=uri, **more))
        assert (page.status_code, is_redirect(page)) == (400, False)
        assert "not an address that it made known" in page.text
    assert (await desk.browser.submit(path(client), path(client, redirect_uri=uri), answer="allow")).status_code == 400
    assert await codes(desk) == 0


@pytest.mark.parametrize(
    "uri",
    ["http://127.0.0.1/callback", "http://127.0.0.1:1/callback", "http://127.0.0.1:65535/callback"],
)
async def test_on_the_persons_own_computer_the_port_may_be_any(desk: Desk, uri: str) -> None:
    await desk.browser.sign_in("ada@example.com")
    sent = await desk.browser.submit(path(await desk.register(), redirect_uri=uri), answer="allow")
    assert sent.headers["location"].startswith(f"{uri}?code=")


@pytest.mark.parametrize("uri", ["http://localhost:8080/x", "http://[::1]:9/y", "http://127.0.0.1?z=1"])
async def test_an_address_of_the_persons_own_computer_is_gone_on_to_as_it_was_made_known(desk: Desk, uri: str) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register(redirect_uris=[uri])
    sent = await desk.browser.submit(path(client, redirect_uri=uri), answer="allow")
    assert sent.status_code == 303
    assert sent.headers["location"].startswith(uri + ("&" if "?" in uri else "?") + "code=riftc_")


@pytest.mark.parametrize(
    "uri",
    ["https://client.example/cb?tenant=1", "cursor://anysphere.cursor/oauth/callback", "com.example.app:/cb",
     "https://client.example:8443/a;b~c", "https://client.example/'x"],
)  # fmt: skip
@pytest.mark.parametrize("word", ["allow", "deny"])
async def test_elsewhere_a_page_goes_on_that_no_form_action_holds_back(desk: Desk, uri: str, word: str) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register(redirect_uris=[uri])
    page = await desk.browser.submit(path(client, redirect_uri=uri), answer=word)
    assert page.status_code == 200
    (shown,) = re.findall(r'<meta http-equiv="refresh" content="0; url=([^"]*)">', page.text)
    (link,) = re.findall(r'<a class="button primary" href="([^"]*)"', page.text)
    assert shown == link
    said = "code=riftc_" if word == "allow" else "error=access_denied"
    assert unescape(link).startswith(uri + ("&" if "?" in uri else "?") + said)
    assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "same-origin")


WRONG = {
    "no_response_type": ({"response_type": None}, "invalid_request"),
    "token": ({"response_type": "token"}, "unsupported_response_type"),
    "code_token": ({"response_type": "code token"}, "unsupported_response_type"),
    "no_challenge": ({"code_challenge": None}, "invalid_request"),
    "no_method": ({"code_challenge_method": None}, "invalid_request"),
    "plain": ({"code_challenge_method": "plain"}, "invalid_request"),
    "plain_challenge": ({"code_challenge": VERIFIER}, "invalid_request"),
    "other_resource": ({"resource": "https://other.example/mcp"}, "invalid_target"),
    "longer_resource": ({"resource": f"{MCP}.evil.example"}, "invalid_target"),
    "deeper_resource": ({"resource": f"{MCP}/more"}, "invalid_target"),
    "long_state": ({"state": "x" * 5000}, "invalid_request"),
}


@pytest.mark.parametrize(("said", "error"), WRONG.values(), ids=WRONG)
async def test_a_client_hears_at_its_own_address_what_it_asked_wrongly(
    desk: Desk, said: dict[str, str | None], error: str
) -> None:
    client = await desk.register()
    for signed_in in (False, True):
        if signed_in:
            await desk.browser.sign_in("ada@example.com")
        answer = await desk.browser.get(path(client, **said))
        assert answer.status_code == 303
        assert answer.headers["location"].startswith(f"{CALLBACK}?error=")
        assert (told(answer)["error"], told(answer)["iss"]) == (error, PUBLIC)
        assert told(answer)["state"] == said.get("state", "a state&more")
    sent = await desk.browser.submit(path(client), path(client, **said), answer="allow")
    assert told(sent)["error"] == error
    assert await codes(desk) == 0


async def test_who_merely_opens_our_address_is_not_sent_on_to_somebody_elses(desk: Desk) -> None:
    elsewhere = "https://evil.example/callback"
    client = await desk.register(redirect_uris=[elsewhere])
    for _ in range(2):
        for more in ({"response_type": "x"}, {"code_challenge": None}, {"resource": "x"}):
            page = await desk.browser.get(path(client, redirect_uri=elsewhere, **more))
            assert (page.status_code, is_redirect(page)) == (400, False)
            assert f'href="{elsewhere}?error=' in page.text
        await desk.browser.sign_in("ada@example.com")


async def test_a_client_that_nobody_knows_gets_a_page_and_no_answer(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    assert (await desk.browser.get(path("\x00"))).status_code == 404
    for client in ("", "client_nobody", "x" * 3000, "\x01", "é", "http://client.example/mcp.json"):
        page = await desk.browser.get(path(client))
        assert (page.status_code, is_redirect(page)) == (400, False)
        assert "knows no client" in page.text


async def test_a_parameter_that_is_there_twice_is_not_taken_from_either_place(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    asked = path(await desk.register())
    for name in ("client_id", "redirect_uri", "state", "resource", "code_challenge"):
        page = await desk.browser.get(f"{asked}&{name}=more")
        assert (page.status_code, is_redirect(page)) == (400, False)
        assert "more than once" in page.text
    assert (await desk.browser.get(f"{asked}&more=%ff")).status_code == 400
    assert (await desk.browser.get(f"{asked}&more={'x' * 20_000}")).status_code == 400


async def test_what_a_client_calls_itself_is_text_wherever_it_is_shown(desk: Desk) -> None:
    name = "<script>alert(1)</script>'\"&\u202e{{ 7*7 }}"
    client, _ = await desk.signed_in(client_name=name)
    for page in (path(client), "/app/connections"):
        html = (await desk.browser.get(page)).text
        assert "<script>alert" not in html
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "\u202e" not in html
        assert "{{ 7*7 }}" in html


CODES = {
    "another_client": {"client_id": "client_other"},
    "another_address": {"redirect_uri": "http://127.0.0.1:33419/callback"},
    "another_verifier": {"code_verifier": "another-verifier-that-is-long-enough-for-it-all"},
    "the_challenge": {"code_verifier": "x" * 43},
    "a_short_verifier": {"code_verifier": "short"},
    "another_resource": {"resource": "https://other.example/mcp"},
}


@pytest.mark.parametrize("said", CODES.values(), ids=CODES)
async def test_a_code_is_bound_to_all_that_it_was_given_for_and_is_over_once_presented_wrongly(
    desk: Desk, said: dict[str, str]
) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    code = await desk.code(client)
    refused = await desk.exchange(client, code, **said)
    assert refused.status_code == 400
    assert refused.json()["error"] == ("invalid_target" if "resource" in said else "invalid_grant")
    assert (await desk.exchange(client, code)).json()["error"] == "invalid_grant"
    assert await people.list_tokens(desk.deps) == []


async def test_a_code_is_good_for_a_minute(desk: Desk, clock: FakeClock) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    early, late = await desk.code(client), await desk.code(client)
    clock.advance(59)
    assert (await desk.exchange(client, early)).status_code == 200
    clock.advance(1)
    assert (await desk.exchange(client, late)).json()["error"] == "invalid_grant"


async def test_a_code_that_comes_again_ends_what_it_gave(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    code = await desk.code(client)
    given = (await desk.exchange(client, code)).json()
    assert await people.authenticate(desk.deps, given["access_token"])
    assert (await desk.exchange(client, code)).json()["error"] == "invalid_grant"
    assert await people.authenticate(desk.deps, given["access_token"]) is None
    assert (await desk.renew(client, given["refresh_token"])).json()["error"] == "invalid_grant"
    assert ("oauth sign in", "code_reused") in [one[2:] for one in await outcomes(desk.deps)]


async def test_of_many_that_present_one_code_at_once_one_gets_a_token(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    code = await desk.code(client)
    answers = await asyncio.gather(*(desk.exchange(client, code) for _ in range(16)))
    assert sorted(answer.status_code for answer in answers) == [200] + [400] * 15
    tokens = await people.list_tokens(desk.deps)
    assert isinstance(tokens, list)
    assert [token.revoked_at is not None for token in tokens] == [True]  # the others are a thief's, or its owner's


TOKENS = {
    "nothing": ({}, "invalid_request"),
    "no_grant": ({"client_id": "x"}, "invalid_request"),
    "password": ({"grant_type": "password", "username": "ada", "password": "x"}, "unsupported_grant_type"),
    "client_credentials": ({"grant_type": "client_credentials", "client_id": "x"}, "unsupported_grant_type"),
    "no_verifier": (
        {"grant_type": "authorization_code", "client_id": "x", "code": "x", "redirect_uri": CALLBACK},
        "invalid_request",
    ),
    "empty_verifier": (
        {"grant_type": "authorization_code", "client_id": "x", "code": "x", "redirect_uri": CALLBACK,
         "code_verifier": ""},
        "invalid_request",
    ),
    "no_client": ({"grant_type": "refresh_token", "refresh_token": "x"}, "invalid_request"),
    "unknown": ({"grant_type": "refresh_token", "refresh_token": "x", "client_id": "x"}, "invalid_client"),
    "nul": ({"grant_type": "refresh_token", "refresh_token": "\0", "client_id": "\0"}, "invalid_request"),
    "odd": ({"grant_type": "refresh_token", "refresh_token": "\x01", "client_id": "\x01"}, "invalid_client"),
}  # fmt: skip


@pytest.mark.parametrize(("form", "error"), TOKENS.values(), ids=TOKENS)
async def test_what_asks_for_no_token_rightly_gets_none(desk: Desk, form: dict[str, str], error: str) -> None:
    answer = await desk.post("token", form)
    assert answer.json()["error"] == error
    assert answer.status_code == (401 if error == "invalid_client" else 400)
    assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")


async def test_a_form_with_a_parameter_twice_or_of_another_kind_is_refused(desk: Desk) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    twice = b"grant_type=refresh_token&client_id=a&client_id=b&refresh_token=x"
    assert (await desk.http.post("/oauth2/token", content=twice, headers=form)).json()["error"] == "invalid_request"
    assert (await desk.http.post("/oauth2/token", json={"grant_type": "refresh_token"})).status_code == 400
    assert (await desk.http.post("/oauth2/token", content=b"x=" + b"x" * 70_000, headers=form)).status_code == 400
    assert (await desk.http.post("/oauth2/token", content=b"\xff=\xff", headers=form)).status_code == 400
    assert (await desk.http.get("/oauth2/token")).status_code == 405


async def test_a_secret_of_one_kind_is_none_of_another(desk: Desk) -> None:
    client, given = await desk.signed_in()
    access, refresh = given["access_token"], given["refresh_token"]
    assert await people.authenticate(desk.deps, refresh) is None
    assert (await desk.renew(client, access)).json()["error"] == "invalid_grant"
    assert (await desk.exchange(client, refresh)).json()["error"] == "invalid_grant"
    assert (await desk.exchange(client, access)).json()["error"] == "invalid_grant"
    answer = await desk.http.post("/oauth2/register", json=CLIENT, headers={"authorization": f"Bearer {access}"})
    assert answer.status_code == 201
    assert access not in answer.text


async def test_a_refresh_token_of_another_client_is_worth_nothing_and_stays(desk: Desk) -> None:
    client, given = await desk.signed_in()
    other = await desk.register(client_name="Other")
    assert (await desk.renew(other, given["refresh_token"])).json()["error"] == "invalid_grant"
    wrong = await desk.renew(client, given["refresh_token"], resource="https://other.example/mcp")
    assert wrong.json()["error"] == "invalid_target"
    assert (await desk.renew(client, given["refresh_token"])).status_code == 200


async def test_a_consent_that_another_site_sends_or_that_was_anothers_page_gives_nothing(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    asked = path(await desk.register())
    html = (await desk.browser.get(asked)).text
    csrf = html.partition('name="csrf" value="')[2].partition('"')[0]
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        answer = await desk.browser.post(asked, {"csrf": csrf, "answer": "allow"}, headers)
        assert (answer.status_code, is_redirect(answer)) == (403, False)
    for wrong in ("", csrf[:-1] + ("A" if csrf[-1] != "A" else "B")):
        assert (await desk.browser.post(asked, {"csrf": wrong, "answer": "allow"})).status_code == 403
    grace = desk.person()
    await grace.sign_in("grace@example.com")
    assert (await grace.post(asked, {"csrf": csrf, "answer": "allow"})).status_code == 403
    nobody = desk.person()
    answer = await nobody.post(asked, {"csrf": csrf, "answer": "allow"})
    assert (answer.status_code, is_redirect(answer)) == (303, False)
    assert await codes(desk) == 0


async def test_anything_but_a_plain_yes_is_a_no(desk: Desk) -> None:
    await desk.browser.sign_in("ada@example.com")
    client = await desk.register()
    for word in ("", "Allow", "yes", "deny"):
        assert (await desk.allow(client, word))["error"] == "access_denied"


@pytest.mark.parametrize(
    ("endpoint", "most"), [("/oauth2/token", 120), ("/oauth2/revoke", 120), ("/oauth2/register", 30)]
)
async def test_one_source_asks_so_often_and_no_more(desk: Desk, clock: FakeClock, endpoint: str, most: int) -> None:
    far = {"x-forwarded-for": "203.0.113.9"}
    for _ in range(most):
        assert (await desk.http.post(endpoint, headers=far)).status_code == 400
    full = await desk.http.post(endpoint, headers=far)
    assert (full.status_code, full.json()["error"]) == (429, "temporarily_unavailable")
    assert int(full.headers["retry-after"]) >= 1
    clock.advance(600)
    assert (await desk.http.post(endpoint, headers=far)).status_code == 400


async def test_one_source_opens_the_consent_page_so_often_and_no_more(desk: Desk) -> None:
    client = await desk.register()
    seen = [(await desk.browser.get(path(client), **{"x-forwarded-for": "203.0.113.9"})).status_code for _ in range(61)]
    assert seen == [303] * 60 + [429]


async def test_another_host_is_answered_nothing_here(desk: Desk) -> None:
    for endpoint in ("token", "revoke", "register"):
        answer = await desk.http.post(f"/oauth2/{endpoint}", headers={"host": "evil.example"})
        assert answer.status_code == 421


async def test_a_way_back_from_signing_in_leads_to_the_consent_page_and_nowhere_else(desk: Desk) -> None:
    answer = await desk.browser.get("/oauth2/authorize?client_id=//evil.example&redirect_uri=" + quote("https://evil"))
    assert answer.status_code == 400
    assert isinstance(answer, httpx2.Response)
