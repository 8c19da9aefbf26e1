"""The first pages: of a stranger, of a newcomer, and of somebody who is ready."""

from __future__ import annotations

import psycopg
import pytest
from markupsafe import Markup
from tests.unit.people.house import caller, outcomes
from tests.wire.web.browsing import Browser
from tests.wire.web.test_boxes_page import opened
from tests.wire.web.test_repositories_page import place, watch

from keel.testing.plugin import FreshDatabase
from rift.people import actions as people
from rift.wire.web.site import linked, ticked


async def test_a_stranger_reads_what_rift_is_and_where_to_sign_in(browser: Browser) -> None:
    answer = await browser.get("/")
    assert answer.status_code == 200
    assert '<a class="button primary" href="/sign-in">' in answer.text
    assert "<nav" in answer.text
    assert 'action="/sign-out"' not in answer.text


async def test_who_is_signed_in_goes_on_to_their_own_first_page(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    assert (await browser.get("/")).headers["location"] == "/app"


async def test_a_newcomer_is_led_through_what_is_missing_and_only_that(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    html = (await browser.get("/app")).text
    assert "Three steps to a first box" in html
    assert "No repository is in your organizations." in html
    assert "<code>rift repo add OWNER/NAME URL_OR_PATH --user ada@example.com</code>" in html
    assert ">done</span>" not in html
    await people.new_token(browser.deps, "ada@example.com", "Claude")
    assert "a token is there, no call yet" in (await browser.get("/app")).text
    watch(database, place(database, person.id), "main")
    html = (await browser.get("/app")).text
    assert html.count(">done</span>") == 1
    assert "1 watched ref can give a box" in html
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE tokens SET used_at = now()")
    html = (await browser.get("/app")).text
    assert "<h1>Ready</h1>" in html
    assert "No open task at this moment." in html
    await opened(browser.deps, "ada@example.com", "first")
    assert "1 open task with no boxes." in (await browser.get("/app")).text


async def test_what_stands_in_the_way_is_told_though_another_ref_is_ready(
    browser: Browser, database: FreshDatabase
) -> None:
    person = await browser.sign_in("ada@example.com")
    await caller(browser.deps, "ada@example.com")
    repo = place(database, person.id)
    watch(database, repo, "main")
    watch(database, repo, "gone", head=None)
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE tokens SET used_at = now()")
    html = (await browser.get("/app")).text.replace("&#34;", '"')
    assert "gone is watched, but there is no such branch" in html
    assert 'rift_unwatch {"repo": "acme/app", "ref": "gone"}' in html


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("/app shows what there is", '<a href="/app">/app</a> shows what there is'),
        ("tick it on /app/feedback.", 'tick it on <a href="/app/feedback">/app/feedback</a>.'),
        ("https://evil.example/app/x //app <a href=/apple>", "https://evil.example/app/x //app &lt;a href=/apple&gt;"),
        ('/app/"onclick=x', '<a href="/app">/app</a>/&#34;onclick=x'),
    ],
)
def test_a_path_of_ours_in_a_mend_is_a_link_and_nothing_else_is(text: str, html: str) -> None:
    assert linked(text) == Markup(html)


async def test_looking_at_the_first_page_writes_no_record(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    before = await outcomes(browser.deps)
    await browser.get("/app")
    assert await outcomes(browser.deps) == before


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("run `rift up` now", "run <code>rift up</code> now"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("`<script>` <b>", "<code>&lt;script&gt;</code> &lt;b&gt;"),
        ("one ` alone <b>", "one ` alone &lt;b&gt;"),
        ("", ""),
    ],
)
def test_what_stands_between_backticks_is_code_and_never_markup(text: str, html: str) -> None:
    assert ticked(text) == Markup(html)
