"""Passkeys, by an authenticator of the test's: adding one, signing in by it, and everything that is not one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from html import unescape
from typing import Any

import httpx2
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.wire.web.authenticator import PRESENT, Authenticator, text
from tests.wire.web.browsing import Browser

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps

ORIGIN = "http://localhost:7433"
BEGIN, SIGN_IN = "/sign-in/passkey/begin", "/sign-in/passkey"
BEGIN_NEW, ADD, REMOVE = "/app/account/passkeys/begin", "/app/account/passkeys", "/app/account/passkeys/remove"


async def said(browser: Browser, path: str, body: object, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    """What the script of the page sends."""
    page = (await browser.get("/app/account")).text
    csrf = re.search(r'data-csrf="([^"]*)"', page)
    told = {"origin": ORIGIN, "sec-fetch-site": "same-origin", "x-csrf-token": unescape(csrf[1]) if csrf else ""}
    return await browser.client.post(path, json=body, headers={**told, **(headers or {})})


async def asked(browser: Browser, path: str, **body: str) -> dict[str, Any]:
    answer = await said(browser, path, body)
    assert answer.status_code == 200, answer.text
    options: dict[str, Any] = answer.json()
    return options


async def added(browser: Browser, device: Authenticator, name: str = "Laptop") -> None:
    credential = device.make(await asked(browser, BEGIN_NEW))
    answer = await said(browser, ADD, {"credential": credential, "name": name})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"next": "/app/account"}


async def signed_in(browser: Browser, device: Authenticator, next: str = "", **wrong: Any) -> httpx2.Response:
    options = await asked(browser, BEGIN, next=next)
    return await said(browser, SIGN_IN, {"credential": device.sign(options, **wrong)})


def refused(answer: httpx2.Response) -> str:
    assert answer.status_code >= 400, answer.text
    assert "rift_session" not in answer.headers.get("set-cookie", "")
    code: str = answer.json()["type"].rpartition(":")[2]
    return code


@pytest.fixture
async def ada(browser: Browser) -> Browser:
    """Ada's browser, signed in by a link."""
    await browser.sign_in("ada@example.org")
    return browser


async def records(deps: Deps) -> list[tuple[str, str, bool]]:
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT action, outcome, actor FROM ledger WHERE via = 'web' ORDER BY seq")
    return [(row["action"], row["outcome"], row["actor"] is not None) for row in rows]


async def test_a_passkey_signs_in_without_an_address_and_says_when_it_was_used(ada: Browser, clock: FakeClock) -> None:
    device = Authenticator(ORIGIN)
    options = await asked(ada, BEGIN_NEW)
    assert options["rp"] == {"name": "Rift", "id": "localhost"}
    assert options["authenticatorSelection"] == {
        "residentKey": "required", "requireResidentKey": True, "userVerification": "preferred",
    }  # fmt: skip
    assert options["excludeCredentials"] == []
    await added(ada, device, "Ada’s <laptop>")
    page = (await ada.get("/app/account")).text
    assert "Ada’s &lt;laptop&gt;" in page
    assert "Ada’s <laptop>" not in page
    (known,) = (await asked(ada, BEGIN_NEW))["excludeCredentials"]
    assert known["id"] == text(device.credential)

    other = Browser(ada.deps)
    options = await asked(other, BEGIN)
    assert (options["rpId"], options["allowCredentials"]) == ("localhost", [])
    clock.advance(30)
    answer = await signed_in(other, device, "/app/boxes?a=1")
    assert (answer.status_code, answer.json()) == (200, {"next": "/app/boxes?a=1"})
    html = (await other.get("/app/account")).text
    assert "a passkey" in html
    assert "never" not in html
    assert ("web sign in", "ok", True) in await records(ada.deps)
    assert ("web add passkey", "ok", True) in await records(ada.deps)


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:7434"},
        {"origin": "http://127.0.0.1:7433"},
        {"origin": "https://localhost:7433"},
        {"rp": "evil.example"},
        {"challenge": text(b"x" * 32)},
        {"type": "webauthn.create"},
        pytest.param({"key": ec.generate_private_key(ec.SECP256R1())}, id="another key"),
    ],
    ids=str,
)
async def test_an_answer_for_another_place_question_or_key_signs_nobody_in(ada: Browser, wrong: dict[str, Any]) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    assert refused(await signed_in(Browser(ada.deps), device, **wrong)) == "passkey_not_taken"
    assert (await signed_in(Browser(ada.deps), device)).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [{"origin": "https://evil.example"}, {"rp": "evil.example"}, {"challenge": text(b"x")}, {"type": "webauthn.get"}],
    ids=str,
)
async def test_a_new_passkey_of_another_place_or_question_is_not_kept(ada: Browser, wrong: dict[str, Any]) -> None:
    credential = Authenticator(ORIGIN).make(await asked(ada, BEGIN_NEW), **wrong)
    assert refused(await said(ada, ADD, {"credential": credential, "name": "x"})) == "passkey_not_taken"
    assert "None yet" in (await ada.get("/app/account")).text


async def test_without_a_person_beside_it_a_passkey_is_not_taken(ada: Browser) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    device.flags = 0
    assert refused(await signed_in(Browser(ada.deps), device)) == "passkey_not_taken"
    device.flags = PRESENT
    assert (await signed_in(Browser(ada.deps), device)).status_code == 200, "verifying the person is preferred, no more"


async def test_an_answer_is_good_once_in_time_and_in_its_browser(ada: Browser, clock: FakeClock) -> None:
    device, browser = Authenticator(ORIGIN, counts=False), Browser(ada.deps)
    await added(ada, device)
    answer = {"credential": device.sign(await asked(browser, BEGIN))}
    stolen = Browser(ada.deps)
    assert refused(await said(stolen, SIGN_IN, answer)) == "sign_in_over", "no cookie"
    await asked(stolen, BEGIN)
    assert refused(await said(stolen, SIGN_IN, answer)) == "passkey_not_taken", "another question's"
    cookie = browser.client.cookies["rift_passkey"]
    assert (await said(browser, SIGN_IN, answer)).status_code == 200
    replay = Browser(ada.deps)
    replay.client.cookies.set("rift_passkey", cookie, domain="127.0.0.1")
    assert refused(await said(replay, SIGN_IN, answer)) == "sign_in_over", "used"
    late = Browser(ada.deps)
    answer = {"credential": device.sign(await asked(late, BEGIN))}
    clock.advance(timedelta(minutes=5))
    assert refused(await said(late, SIGN_IN, answer)) == "sign_in_over", "too late"
    told = [outcome for action, outcome, _ in await records(ada.deps) if action == "web sign in"]
    assert told[1:] == ["sign_in_over", "passkey_not_taken", "ok", "sign_in_over", "sign_in_over"]


async def test_a_question_of_one_kind_is_not_answered_by_the_other(ada: Browser) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    await asked(ada, BEGIN_NEW)
    secret = ada.client.cookies["rift_passkey_new"]
    other = Browser(ada.deps)
    options = await asked(other, BEGIN)
    other.client.cookies.set("rift_passkey", secret, domain="127.0.0.1")
    del other.client.cookies["rift_passkey"]
    other.client.cookies.set("rift_passkey", secret)
    assert refused(await said(other, SIGN_IN, {"credential": device.sign(options)})) == "sign_in_over"


async def test_a_passkey_of_somebody_else_signs_in_as_them_or_nobody(ada: Browser) -> None:
    device, eve = Authenticator(ORIGIN), Browser(ada.deps)
    await added(ada, device)
    await eve.sign_in("eve@example.org")
    hers = Authenticator(ORIGIN)
    await added(eve, hers)
    assert refused(await signed_in(Browser(ada.deps), hers, user=device.user)) == "unknown_passkey"
    assert refused(await signed_in(Browser(ada.deps), Authenticator(ORIGIN), user=device.user)) == "unknown_passkey"
    posing = Authenticator(ORIGIN, credential=device.credential)
    assert refused(await signed_in(Browser(ada.deps), posing, user=device.user)) == "passkey_not_taken"
    taken = Authenticator(ORIGIN, credential=device.credential)
    answer = taken.make(await asked(eve, BEGIN_NEW))
    assert refused(await said(eve, ADD, {"credential": answer, "name": "x"})) == "passkey_known"
    browser = Browser(ada.deps)
    assert (await signed_in(browser, device)).status_code == 200
    assert "ada@example.org" in (await browser.get("/app/account")).text


async def test_a_question_to_one_person_is_not_answered_for_another_in_their_browser(ada: Browser) -> None:
    options = await asked(ada, BEGIN_NEW)
    secret = ada.client.cookies["rift_passkey_new"]
    eve = Browser(ada.deps)
    await eve.sign_in("eve@example.org")
    eve.client.cookies.set("rift_passkey_new", secret)
    answer = await said(eve, ADD, {"credential": Authenticator(ORIGIN).make(options), "name": "x"})
    assert refused(answer) == "passkey_not_taken"


async def test_a_sign_count_that_goes_back_is_refused_and_recorded_as_a_copy(ada: Browser) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    copy = Authenticator(ORIGIN, key=device.key, credential=device.credential, user=device.user, count=device.count)
    for _ in range(3):
        assert (await signed_in(Browser(ada.deps), device)).status_code == 200
    assert refused(await signed_in(Browser(ada.deps), copy)) == "passkey_copied"
    forged = Authenticator(ORIGIN, credential=device.credential, user=device.user)
    assert refused(await signed_in(Browser(ada.deps), forged)) == "passkey_not_taken", "a guess tells of no copy"
    assert (await records(ada.deps))[-2:] == [
        ("web sign in", "passkey_copied", True), ("web sign in", "passkey_not_taken", False),
    ]  # fmt: skip
    assert (await signed_in(Browser(ada.deps), device)).status_code == 200


async def test_a_passkey_that_does_not_count_is_taken_again_and_again(ada: Browser) -> None:
    device = Authenticator(ORIGIN, counts=False)
    await added(ada, device)
    for _ in range(2):
        assert (await signed_in(Browser(ada.deps), device)).status_code == 200


async def test_a_removed_passkey_signs_nobody_in_and_only_its_owner_removes_it(ada: Browser) -> None:
    device, eve = Authenticator(ORIGIN), Browser(ada.deps)
    await added(ada, device, "Phone")
    await eve.sign_in("eve@example.org")
    found = re.search(r'name="passkey" value="([^"]*)"', (await ada.get("/app/account")).text)
    assert found
    assert (await eve.submit("/app/account", REMOVE, passkey=found[1])).status_code == 404
    assert (await ada.submit("/app/account", REMOVE, passkey=found[1])).status_code == 303
    assert "“Phone” signs nobody in any more" in (await ada.get("/app/account")).text
    assert refused(await signed_in(Browser(ada.deps), device)) == "unknown_passkey"
    assert (await ada.submit("/app/account", REMOVE, passkey=found[1])).status_code == 404


async def test_who_was_put_out_has_no_use_of_a_passkey(ada: Browser, database: FreshDatabase) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE users SET disabled_at = now()")
    assert refused(await signed_in(Browser(ada.deps), device)) == "disabled"


@pytest.mark.parametrize(
    "body",
    [[], "x", 7, {}, {"credential": None}, {"credential": []}, {"credential": {"id": 1}}, {"credential": "x"},
     {"credential": {"id": "x", "rawId": "!", "type": "public-key", "response": {}}},
     {"credential": {"id": "eA", "rawId": "eA", "type": "public-key", "response": {
         "clientDataJSON": "eA", "attestationObject": "eA", "authenticatorData": "eA", "signature": "eA",
         "userHandle": "_____w"}}}],
    ids=str,
)  # fmt: skip
async def test_what_is_no_answer_at_all_is_refused_without_a_fault(ada: Browser, body: object) -> None:
    await asked(ada, BEGIN_NEW)
    assert refused(await said(ada, ADD, body)) == "passkey_not_taken"
    other = Browser(ada.deps)
    await asked(other, BEGIN)
    assert refused(await said(other, SIGN_IN, body)) in ("passkey_not_taken", "unknown_passkey")
    for path in (BEGIN, BEGIN_NEW):
        assert (await said(ada, path, body)).status_code == 200


async def test_no_question_and_no_answer_is_taken_from_another_site(ada: Browser) -> None:
    for path in (BEGIN, SIGN_IN, BEGIN_NEW, ADD):
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"x-csrf-token": "no"}):
            answer = await said(ada, path, {}, headers)
            assert (answer.status_code, refused(answer)) == (403, "foreign_form"), (path, headers)
    assert (await ada.post(REMOVE, {"passkey": "x"})).status_code == 403


@pytest.mark.parametrize("next", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x"])
async def test_a_passkey_leads_nowhere_else(ada: Browser, next: str) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    assert (await signed_in(Browser(ada.deps), device, next)).json() == {"next": "/app"}


async def test_a_person_has_so_many_passkeys_and_no_more(ada: Browser) -> None:
    for _ in range(20):
        await added(ada, Authenticator(ORIGIN))
    assert refused(await said(ada, BEGIN_NEW, {})) == "too_many_passkeys"


async def test_nothing_secret_of_a_passkey_is_in_the_database_or_the_ledger(ada: Browser) -> None:
    device = Authenticator(ORIGIN)
    await added(ada, device)
    options = await asked(Browser(ada.deps), BEGIN)
    async with ada.deps.db.tx() as tx:
        rows = await tx.rows(
            "SELECT ceremonies::text AS text FROM ceremonies UNION ALL SELECT ledger::text FROM ledger"
        )
    assert not [row for row in rows if "riftw_" in row["text"] or options["challenge"] in row["text"]]


async def test_where_browsers_have_no_passkeys_none_is_asked_for(ada: Browser) -> None:
    settings = ada.deps.settings
    server = settings.server.model_copy(update={"public_url": "https://192.0.2.7"})
    bare = Browser(replace(ada.deps, settings=settings.model_copy(update={"server": server})))
    bare.client.cookies = ada.client.cookies
    for path in (BEGIN, BEGIN_NEW, ADD):
        assert refused(await said(bare, path, {})) == "no_passkeys_here"
    assert refused(await said(Browser(bare.deps), SIGN_IN, {})) == "no_passkeys_here"
    page = await Browser(ada.deps, "http://192.0.2.7").get("/sign-in")
    assert "passkey" not in page.text.replace("username webauthn", "")
