"""What stands before every page: the host, the session, where a form is from, how large it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import LiteralString

import httpx2
import psycopg
import pytest
from starlette.applications import Starlette
from tests.wire.web.browsing import PUBLIC, Browser

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift import serving
from rift.mail import actions as mail
from rift.wire.hosts import Hosts
from rift.wire.web.pages import boxes
from rift.wire.web.site import Door, templates
from rift.wire.web.visit import Page, Site, inside


async def test_a_link_signs_in_once_and_only_when_its_button_is_pressed(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    secret = await mail.link_for(browser.deps, "ada@example.com")
    assert not isinstance(secret, Refusal)
    other, third = Browser(browser.deps), Browser(browser.deps)
    assert "Sign in as ada@example.com" in (await other.get(f"/sign-in/link/{secret}")).text
    assert (await other.submit(f"/sign-in/link/{secret}")).headers["location"] == "/app"
    assert (await other.get("/app/boxes")).status_code == 200
    assert (await third.post(f"/sign-in/link/{secret}", {})).status_code == 410
    assert (await third.get("/app/boxes")).status_code == 303


async def test_a_link_that_is_too_old_signs_nobody_in(browser: Browser, clock: FakeClock) -> None:
    await browser.sign_in("ada@example.com")
    secret = await mail.link_for(browser.deps, "ada@example.com")
    clock.advance(16 * 60)
    assert (await Browser(browser.deps).get(f"/sign-in/link/{secret}")).status_code == 410


async def test_who_was_put_out_has_no_page_and_no_link(browser: Browser, database: FreshDatabase) -> None:
    await browser.sign_in("ada@example.com")
    secret = await mail.link_for(browser.deps, "ada@example.com")
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE users SET disabled_at = now()")
    assert (await browser.get("/app/boxes")).status_code == 303
    assert (await Browser(browser.deps).submit(f"/sign-in/link/{secret}")).status_code == 403
    refused = await mail.link_for(browser.deps, "ada@example.com")
    assert isinstance(refused, Refusal)
    assert refused.code == "disabled"


async def test_one_source_sends_so_many_forms_a_minute_and_no_more(browser: Browser, clock: FakeClock) -> None:
    far = {"x-forwarded-for": "203.0.113.9"}
    sent = [(await browser.post("/sign-in/link/no", {}, far)).status_code for _ in range(31)]
    assert sent == [410] * 30 + [429]
    clock.advance(60)
    assert (await browser.post("/sign-in/link/no", {}, far)).status_code == 410


async def test_a_page_that_is_not_for_everybody_is_not_there(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    page = Page("/app/only", boxes.boxes, admin=True)
    app = Starlette(routes=[Door(Site(browser.deps, PUBLIC, Hosts(()), templates())).route(page)])
    browser.client = httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app), base_url=PUBLIC, cookies=browser.client.cookies
    )
    assert (await browser.get("/app/only")).status_code == 404


async def test_who_is_not_signed_in_is_sent_to_sign_in_and_back(browser: Browser) -> None:
    answer = await browser.get("/app/boxes?a=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fapp%2Fboxes%3Fa%3D1")


async def test_a_form_of_another_site_or_session_does_nothing(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    for csrf, headers in (
        ("", {}),
        ("wrong", {}),
        ("é", {}),
        (None, {"origin": "https://evil.example"}),
        (None, {"origin": "null"}),
        (None, {"sec-fetch-site": "cross-site"}),
        (None, {"sec-fetch-site": "same-site"}),
    ):
        page = (await browser.get("/app/boxes")).text
        real = page.partition('name="csrf" value="')[2].partition('"')[0]
        answer = await browser.post("/sign-out", {"csrf": real if csrf is None else csrf}, headers)
        assert answer.status_code == 403, (csrf, headers)
    assert (await browser.get("/app/boxes")).status_code == 200
    assert (await browser.submit("/app/boxes", "/sign-out")).status_code == 303
    assert (await browser.get("/app/boxes")).status_code == 303


async def test_a_form_that_is_too_large_or_none_is_told(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    assert (await browser.post("/sign-out", {"csrf": "x" * 300_000})).status_code == 413
    assert (await browser.client.post("/sign-out", content=b"\xff=1", headers={"origin": PUBLIC})).status_code == 400


async def test_text_that_no_database_keeps_is_told_and_not_a_fault(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    page = (await browser.get("/app/boxes")).text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert (await browser.post("/sign-out", {"csrf": csrf, "a": "x\0"})).status_code == 400
    for path in ("/app/boxes?a=%00", "/sign-in/link/%00", "/sign-in/link/a%00b"):
        assert (await browser.get(path)).status_code == 404, path
    told = {"origin": PUBLIC, "x-csrf-token": csrf, "content-type": "application/json"}
    for body in (b'{"a": "\\u0000"}', b'["\\ud800"]', b"[" * 200_000, b'{"a": "\x00"}', b"", b"\xff"):
        assert (await browser.client.post("/sign-out", content=body, headers=told)).status_code == 400, body[:20]
    assert (await browser.get("/app/boxes")).status_code == 200


@pytest.mark.parametrize("what", ["UPDATE users SET disabled_at = now()", "UPDATE sessions SET ended_at = now()"])
async def test_who_was_put_out_or_signed_out_while_their_form_came_slowly_does_nothing_by_it(
    browser: Browser, database: FreshDatabase, what: LiteralString
) -> None:
    await browser.sign_in("ada@example.com")
    page = (await browser.get("/app/connections")).text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]

    async def slowly() -> AsyncIterator[bytes]:
        yield f"csrf={csrf}&cli".encode()
        with psycopg.connect(database.owner) as connection:
            connection.execute(what)
        yield b"ent=mine"

    told = {"origin": PUBLIC, "content-type": "application/x-www-form-urlencoded"}
    answer = await browser.client.post("/app/connections", content=slowly(), headers=told)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/sign-in")
    with psycopg.connect(database.owner) as connection:
        assert connection.execute("SELECT FROM tokens").fetchall() == []


async def test_a_platform_admin_no_longer_opens_and_handles_nothing_by_a_form_that_came_slowly(
    browser: Browser, database: FreshDatabase
) -> None:
    await browser.sign_in("ada@example.com")
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE users SET admin = true")
    page = (await browser.get("/app/mailbox")).text
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]

    async def slowly() -> AsyncIterator[bytes]:
        yield f"csrf={csrf}&let".encode()
        with psycopg.connect(database.owner) as connection:
            connection.execute("UPDATE users SET admin = false")
        yield b"ter=let_1"

    told = {"origin": PUBLIC, "content-type": "application/x-www-form-urlencoded"}
    assert (await browser.client.post("/app/mailbox/open", content=slowly(), headers=told)).status_code == 404
    with psycopg.connect(database.owner) as connection:
        found = connection.execute("SELECT FROM ledger WHERE action = 'web open letter'").fetchall()
    assert found == [], "it was not asked"


async def test_a_body_that_comes_byte_by_byte_costs_what_one_at_once_does(browser: Browser) -> None:
    async def bytes_of(form: bytes) -> AsyncIterator[bytes]:
        for byte in form:
            yield bytes([byte])

    began = time.process_time()
    told = {"content-type": "application/x-www-form-urlencoded"}
    slow = httpx2.ASGITransport(app=serving.web(browser.deps))
    async with httpx2.AsyncClient(transport=slow, base_url=PUBLIC) as client:
        page = await client.post("/sign-in", content=bytes_of(b"email=" + b"x" * 200_000), headers=told)
        token = await client.post("/oauth2/token", content=bytes_of(b"a=" + b"x" * 60_000), headers=told)
    assert (page.status_code, token.status_code) == (422, 400)
    assert time.process_time() - began < 20, "whoever sends so would keep everybody waiting for a minute"


async def test_another_host_is_answered_nothing(browser: Browser) -> None:
    assert (await browser.get("/sign-in", host="evil.example")).status_code == 421


async def test_a_slash_too_many_leads_to_no_host_that_the_request_names(browser: Browser) -> None:
    transport = httpx2.ASGITransport(app=serving.web(browser.deps))
    async with httpx2.AsyncClient(transport=transport, base_url="http://evil.example") as stranger:
        for path in ("/sign-in/", "/app/boxes/", "/docs/tasks/", "/mcp/", "/static"):
            answer = await stranger.get(path)
            assert "location" not in answer.headers, path
            assert answer.status_code >= 400


async def test_a_page_loads_nothing_from_elsewhere_and_is_in_nobodys_frame(browser: Browser) -> None:
    policy = (await browser.get("/sign-in")).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "path", ["https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)", "",
             "/app\n", "app", "/a\\b", "http:/app", "/" + "a" * 17_000]
)  # fmt: skip
def test_a_way_back_leads_nowhere_but_inside(path: str) -> None:
    assert inside(path) == "/app"
