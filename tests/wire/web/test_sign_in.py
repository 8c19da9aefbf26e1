"""Signing in by a link: nobody learns who has an account, and nobody is led elsewhere."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from tests.behaviour.onbe.wiretap import tapped
from tests.unit.people.house import user
from tests.wire.web.browsing import PUBLIC, Browser

from keel.db import Database
from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.mail import actions as mail
from rift.sessions import actions as sessions

ELSEWHERE = [
    "https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)",
    "/app\n//evil.example", "///evil.example", " //evil.example", "http:evil.example", "/\t/evil.example",
]  # fmt: skip


@pytest.fixture
async def alone(deps: Deps, database: FreshDatabase) -> AsyncIterator[Deps]:
    """A system with one connection, so that what goes over it can be counted."""
    async with Database(database.runtime, size=1) as db:
        yield replace(deps, db=db)


async def jobs(deps: Deps) -> list[dict[str, str]]:
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT args FROM procrastinate_jobs WHERE task_name = 'sessions.send_link' ORDER BY id")
    return [{name: value for name, value in row["args"].items() if name != "_trace"} for row in rows]


async def link_of(deps: Deps, email: str, next: str = "") -> str:
    async with deps.db.tx() as tx:
        return await mail.mint(tx, deps, email, next=next)


async def test_nothing_of_the_answer_tells_whether_an_address_has_an_account(
    alone: Deps, database: FreshDatabase
) -> None:
    browser = Browser(alone)
    for email in ("known@example.org", "disabled@example.org"):
        await user(alone, email)
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE users SET disabled_at = now() WHERE email = 'disabled@example.org'")
        connection.execute(
            "INSERT INTO invitations (id, email, role, created_at, expires_at) "
            "VALUES ('inv_x', 'invited@example.org', 'member', now(), now() + '1 day')"
        )
    asked = ("known", "KNOWN", "unknown", "disabled", "invited")
    for warm in range(7):  # every statement is prepared by then
        await browser.post("/sign-in", {"email": f"warm{warm}@example.org"})
    seen = set()
    for name in asked:
        async with tapped(alone.db) as wire:
            answer = await browser.post("/sign-in", {"email": f"{name}@example.org", "next": "/app/boxes"})
        body = answer.text.replace(f"{name}@example.org", "…")
        seen.add((answer.status_code, body, wire.statements, wire.trips, tuple(wire.said)))
    assert len(seen) == 1
    assert {one[0] for one in seen} == {200}
    assert [one["email"] for one in (await jobs(alone))[-5:]] == [f"{name}@example.org" for name in asked]


async def test_headers_of_the_answer_are_the_same_for_everybody(browser: Browser) -> None:
    await user(browser.deps, "ada@example.org")
    seen = set()
    for email in ("ada@example.org", "eve@example.org"):
        answer = await browser.post("/sign-in", {"email": email})
        seen.add(tuple((name, value) for name, value in answer.headers.items()))
    assert len(seen) == 1


async def test_the_page_wanted_survives_the_letter(browser: Browser) -> None:
    await browser.sign_in("ada@example.org")
    other = Browser(browser.deps)
    first = await other.get("/app/boxes?a=1")
    page = await other.get(first.headers["location"])
    assert 'name="next" value="/app/boxes?a=1"' in page.text
    assert (await other.post("/sign-in", {"email": "ada@example.org", "next": "/app/boxes?a=1"})).status_code == 200
    (job,) = await jobs(browser.deps)
    await sessions.send_link(browser.deps, job["email"], job["next"])
    async with browser.deps.db.tx() as tx:
        row = await tx.row("SELECT facts FROM letters")
    assert row is not None
    assert row["facts"] == {"next": "/app/boxes?a=1"}
    secret = await link_of(browser.deps, "ada@example.org", "/app/boxes?a=1")
    assert (await other.submit(f"/sign-in/link/{secret}")).headers["location"] == "/app/boxes?a=1"


@pytest.mark.parametrize("next", ELSEWHERE)
async def test_nobody_is_led_elsewhere_by_any_way_in(browser: Browser, next: str) -> None:
    await browser.sign_in("ada@example.org")
    signed = await browser.client.get("/sign-in", params={"next": next})
    assert (signed.status_code, signed.headers["location"]) == (303, "/app")
    other = Browser(browser.deps)
    page = await other.client.get("/sign-in", params={"next": next})
    assert re.search(r'name="next" value="([^"]*)"', page.text)[1] == "/app"  # type: ignore[index]  # it is there
    await other.post("/sign-in", {"email": "ada@example.org", "next": next})
    assert (await jobs(browser.deps))[-1]["next"] == "/app"
    secret = await link_of(browser.deps, "ada@example.org", next)
    assert (await other.submit(f"/sign-in/link/{secret}")).headers["location"] == "/app"


async def test_what_is_no_address_is_told_beside_its_field_and_asks_for_nothing(browser: Browser) -> None:
    answer = await browser.post("/sign-in", {"email": "<b>ada</b>", "next": "/app/boxes"})
    assert answer.status_code == 422
    assert "&lt;b&gt;ada&lt;/b&gt; is not an email address" in answer.text
    assert "<b>ada</b>" not in answer.text
    assert 'value="/app/boxes"' in answer.text
    assert await jobs(browser.deps) == []


async def test_without_a_mail_server_the_page_says_how_the_link_is_found(browser: Browser) -> None:
    for page in (await browser.get("/sign-in"), await browser.post("/sign-in", {"email": "ada@example.org"})):
        assert "rift user link EMAIL" in page.text
        assert "Mailbox" in page.text
    settings = browser.deps.settings
    by_mail = settings.model_copy(update={"mail": settings.mail.model_copy(update={"host": "mail.example.org"})})
    other = Browser(replace(browser.deps, settings=by_mail))
    for page in (await other.get("/sign-in"), await other.post("/sign-in", {"email": "ada@example.org"})):
        assert "Mailbox" not in page.text


async def test_a_link_that_is_over_says_what_mends_it_and_who_is_signed_in(browser: Browser, clock: FakeClock) -> None:
    await user(browser.deps, "ada@example.org")
    secret = await mail.link_for(browser.deps, "ada@example.org")
    assert not isinstance(secret, Refusal)
    page = f"/sign-in/link/{secret}"
    assert (await browser.submit(page)).status_code == 303
    refreshed = await browser.get(page)
    assert refreshed.status_code == 410
    assert "You are signed in as ada@example.org" in refreshed.text
    again = await Browser(browser.deps).post(page, {})
    assert again.status_code == 410
    assert 'href="/sign-in"' in again.text
    assert "rift user link EMAIL" in again.text
    late = await mail.link_for(browser.deps, "ada@example.org")
    clock.advance(timedelta(hours=1))
    expired = await Browser(browser.deps).get(f"/sign-in/link/{late}")
    assert (expired.status_code, "Send me another" in expired.text) == (410, True)
    for nothing in ("x", "riftl_" + "x" * 43, "é" * 100, "x" * 5000):
        assert (await browser.get(f"/sign-in/link/{nothing}")).status_code == 410


async def test_a_session_that_was_planted_is_not_the_one_that_is_signed_in(browser: Browser) -> None:
    """Fixation: whatever cookie a browser brings, signing in makes a new one."""
    eve = Browser(browser.deps)
    await eve.sign_in("eve@example.org")
    planted = eve.client.cookies["rift_session"]
    for cookie in ("rifts_" + "a" * 43, planted):
        victim = Browser(browser.deps)
        victim.client.cookies.set("rift_session", cookie, domain="127.0.0.1")
        secret = await link_of(browser.deps, (await user_of(browser.deps, "ada@example.org")))
        assert (await victim.submit(f"/sign-in/link/{secret}")).status_code == 303
        assert victim.client.cookies.get("rift_session", domain="127.0.0.1.local") != cookie
        assert cookie not in [one.value for one in victim.client.cookies.jar if one.domain != "127.0.0.1"]
    assert (await eve.get("/app/boxes")).status_code == 303, "what was planted is over"


async def user_of(deps: Deps, email: str) -> str:
    async with deps.db.tx() as tx:
        row = await tx.row("SELECT id FROM users WHERE email = %(email)s", {"email": email})
    if row is None:
        await user(deps, email)
    return email


@pytest.mark.parametrize(
    ("public", "name", "flags"),
    [
        (PUBLIC, "rift_session", {"HttpOnly", "SameSite=lax", "Path=/"}),
        ("https://rift.example", "__Host-rift", {"HttpOnly", "SameSite=lax", "Path=/", "Secure"}),
    ],
)
async def test_the_cookie_of_a_session_is_kept_from_scripts_and_other_hosts(
    deps: Deps, public: str, name: str, flags: set[str]
) -> None:
    await user(deps, "ada@example.org")
    browser = Browser(deps, public)
    secret = await mail.link_for(deps, "ada@example.org")
    answer = await browser.submit(f"/sign-in/link/{secret}")
    cookies = [one for one in answer.headers.get_list("set-cookie") if one.startswith(f"{name}=")]
    assert len(cookies) == 1
    parts = {part.strip() for part in cookies[0].split(";")[1:]}
    assert flags <= parts
    assert not any(part.startswith("Domain") for part in parts)
    assert ("Secure" in parts) == public.startswith("https")
    out = await browser.submit("/app/boxes", "/sign-out")
    gone = next(one for one in out.headers.get_list("set-cookie") if one.startswith(f"{name}="))
    assert "Max-Age=0" in gone
    (told,) = [one.partition("=")[0] for one in out.headers.get_list("set-cookie") if "notice" in one]
    assert told.startswith("__Host-") == public.startswith("https"), "nor does another host say what a page says"
    assert (await browser.get("/app/boxes")).status_code == 303


async def test_a_form_that_comes_after_signing_out_is_told_to_have_done_nothing(browser: Browser) -> None:
    await browser.sign_in("ada@example.org")
    await browser.submit("/app/boxes", "/sign-out")
    assert "You are signed out." in (await browser.get("/sign-in")).text
    assert (await browser.post("/sign-out", {})).headers["location"] == "/sign-in"
    assert "nothing was done" not in (await browser.get("/sign-in")).text
    assert (await browser.post("/app/organizations", {"name": "Late"})).headers["location"] == "/sign-in"
    assert "nothing was done" in (await browser.get("/sign-in")).text
    assert "nothing was done" not in (await browser.get("/sign-in")).text, "once"


async def test_a_link_that_is_over_tells_a_stranger_how_to_get_another(browser: Browser) -> None:
    said = (await browser.get("/sign-in/link/riftl_nope")).text
    assert "ask whoever runs this Rift: <code>rift user link EMAIL</code> prints another." in said
    assert "yourself" not in said
    assert "An empty field is not an email address." in (await browser.post("/sign-in", {"email": " "})).text


async def test_nothing_secret_of_signing_in_is_in_the_ledger(browser: Browser) -> None:
    await user(browser.deps, "ada@example.org")
    secret = await mail.link_for(browser.deps, "ada@example.org")
    assert isinstance(secret, str)
    await browser.submit(f"/sign-in/link/{secret}")
    await browser.submit("/app/boxes", "/sign-out")
    await browser.post(f"/sign-in/link/{secret}", {})
    async with browser.deps.db.tx() as tx:
        rows = await tx.rows("SELECT action, outcome, actor, ledger::text AS text FROM ledger ORDER BY seq")
    assert [(row["action"], row["outcome"]) for row in rows if row["action"].startswith("web sign")] == [
        ("web sign in", "ok"), ("web sign out", "ok"), ("web sign in", "link_over"),
    ]  # fmt: skip
    assert not [row for row in rows if secret in row["text"] or "rifts_" in row["text"]]
