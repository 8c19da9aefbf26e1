"""The waitlist: a form that tells nobody who is known, and the list that the platform admin admits from."""

from __future__ import annotations

import re
from html import unescape

import psycopg
import pytest
from tests.unit.people.house import outcomes, user
from tests.wire.web.browsing import Browser
from tests.wire.web.teams import admin, joins, said, signed_in, team_of, values

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps

ADA, BOB, ROOT = "ada@example.com", "bob@example.com", "root@example.com"


async def waits(deps: Deps, email: str, **more: str) -> None:
    """Somebody joins the waitlist, from a browser of their own."""
    assert (await Browser(deps).submit("/waitlist", email=email, **more)).status_code == 303


async def test_anybody_asks_for_an_account_and_hears_the_same(deps: Deps, browser: Browser) -> None:
    await user(deps, ADA)
    answers = []
    for email in ("new@example.com", "new@example.com", "NEW@example.com", ADA):
        sent = await browser.submit("/waitlist", email=email, name="Ada", organization="Engines", note="work")
        page = await browser.get(sent.headers["location"])
        answers.append((sent.status_code, sent.headers["location"], sorted(sent.headers), page.status_code, page.text))
    assert all(answer == answers[0] for answer in answers)
    assert "Thank you" in answers[0][4]
    assert 'action="/waitlist"' not in answers[0][4]
    text = said((await (await admin(deps)).get("/app/waitlist")).text)
    assert text.count("new@example.com") == 2, "once in its row, once on its button"
    assert ADA not in text.replace(ROOT, "")


async def test_an_address_that_is_none_is_told_and_all_that_was_typed_stays(browser: Browser) -> None:
    typed = {"name": "<b>Ada</b>", "organization": 'A "quoted" one', "note": "line one\r\nline two </textarea>"}
    for email in ("", "none", "a@b@c", "🦊" * 200, "x" * 300 + "@example.com", "<script>alert(1)</script>@x"):
        refused = await browser.submit("/waitlist", email=email, **typed)
        assert refused.status_code == 409, email
        assert 'role="alert"' in refused.text
        assert 'aria-invalid="true"' in refused.text
        assert "<script>alert" not in refused.text
        assert "<title>Not sent: Waitlist" in refused.text
        html = refused.text
        assert f'value="{typed["name"].replace("<", "&lt;").replace(">", "&gt;")}"' in html
        assert "A &#34;quoted&#34; one" in html
        assert "line one\r\nline two &lt;/textarea&gt;</textarea>" in html


async def test_the_form_is_a_page_with_a_label_for_each_field(browser: Browser) -> None:
    html = (await browser.get("/waitlist")).text
    for name in ("email", "name", "organization", "note"):
        (id,) = re.findall(rf'<(?:input|textarea) id="([^"]+)" name="{name}"', html)
        assert f'<label for="{id}">' in html


async def test_forms_without_end_from_one_source_are_bounded(browser: Browser) -> None:
    far = {"x-forwarded-for": "203.0.113.9"}
    sent = [(await browser.post("/waitlist", {"email": f"n{n}@example.com"}, far)).status_code for n in range(32)]
    assert sent == [303] * 30 + [429] * 2


async def test_the_list_is_for_the_platform_admin_alone(deps: Deps) -> None:
    await waits(deps, "new@example.com")
    ada = await signed_in(deps, ADA)
    assert (await ada.get("/app/waitlist")).status_code == 404
    assert (await ada.submit("/waitlist", "/app/waitlist", email="new@example.com")).status_code == 404
    assert (await Browser(deps).get("/app/waitlist")).status_code == 303
    assert (await Browser(deps).post("/app/waitlist", {"email": "new@example.com"})).status_code == 303
    root = await admin(deps)
    before = await outcomes(deps)
    assert (await root.post("/app/waitlist", {"email": "new@example.com", "csrf": "no"})).status_code == 403
    assert await outcomes(deps) == before
    assert "new@example.com" in (await root.get("/app/waitlist")).text


async def test_an_empty_list_says_where_people_ask(deps: Deps) -> None:
    page = (await (await admin(deps)).get("/app/waitlist")).text
    assert "Nobody waits" in page
    assert 'href="/waitlist"' in page
    assert 'href="/app/people"' in page


async def test_who_waits_is_admitted_one_by_one_from_the_oldest_on(deps: Deps, clock: FakeClock) -> None:
    root = await admin(deps)
    for email in ("first@example.com", "second@example.com"):
        await waits(deps, email, name="N", organization="O", note="because")
        clock.advance(60)
    html = (await root.get("/app/waitlist")).text
    assert values(html, "email") == ["first@example.com", "second@example.com"]
    assert "because" in said(html)
    assert (await root.submit("/app/waitlist", email="first@example.com")).headers["location"] == "/app/waitlist"
    html = (await root.get("/app/waitlist")).text
    assert "first@example.com is admitted" in html
    assert values(html, "email") == ["second@example.com"]
    assert "first@example.com" in said((await root.get("/app/people")).text)
    await user(deps, "second@example.com")
    refused = await root.submit("/app/waitlist", email="second@example.com")
    assert refused.status_code == 409
    assert "has an account already" in refused.text


async def test_a_row_names_the_teams_that_have_invited_whoever_waits(deps: Deps, clock: FakeClock) -> None:
    await waits(deps, BOB)
    ada, root = await signed_in(deps, ADA), await admin(deps)
    for name in ("<i>Engines</i>", "Tables"):
        team = await team_of(ada, name)
        await ada.submit(team, f"{team}/invite", email=BOB)
        clock.advance(1)
    html = (await root.get("/app/waitlist")).text
    assert "<i>" not in html
    assert "<i>Engines</i>, Tables" in unescape(re.sub(r"</?bdi>", "", html))


async def test_many_who_wait_are_shown_page_by_page(deps: Deps, database: FreshDatabase) -> None:
    root = await admin(deps)
    with psycopg.connect(database.owner) as connection:
        connection.execute(
            """
            INSERT INTO waitlist (id, email, name, organization, note, joined_at)
            SELECT 'wait_' || n, 'w' || n || '@example.com', '', '', '',
                   '2026-11-01T00:00:00Z'::timestamptz + n * interval '1 microsecond'
            FROM generate_series(1, 170) n
            """
        )
    seen, path = [], "/app/waitlist"
    while path:
        html = (await root.get(path)).text
        seen += values(html, "email")
        following = re.search(r'rel="next" href="([^"]+)"', html)
        path = unescape(following[1]) if following else ""
    assert seen == [f"w{n}@example.com" for n in range(1, 171)]
    second = re.search(r'rel="next" href="([^"]+)"', (await root.get("/app/waitlist")).text)
    assert second
    (since, *_) = values((await root.get(unescape(second[1]))).text, "since")
    done = await root.submit("/app/waitlist", email="w60@example.com", since=since)
    assert values((await root.get(done.headers["location"])).text, "email")[0] == "w51@example.com"
    assert values((await root.get("/app/waitlist?since=2026-11-01")).text, "email")[0] == "w1@example.com"
    assert "Nobody found" in (await root.get("/app/waitlist?since=2026-11-02")).text


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "<script>alert(1)</script>", "9" * 3000, "🦊"])
async def test_an_instant_that_is_none_is_told_beside_the_list(deps: Deps, since: str) -> None:
    page = await (await admin(deps)).client.get("/app/waitlist", params={"since": since})
    assert page.status_code == 409
    assert "since is a UTC date" in page.text
    assert "<script>alert" not in page.text


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\u202egnp\u202c", "🦊" * 200, "a\r\nb", "{{ 7 * 7 }}"])
async def test_whatever_a_stranger_writes_is_text_to_the_admin(deps: Deps, name: str) -> None:
    await waits(deps, "odd@example.com", name=name, organization=name, note=name * 20)
    html = (await (await admin(deps)).get("/app/waitlist")).text
    assert values(html, "email") == ["odd@example.com"]
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert ">49<" not in html
    assert len(html) < 20_000


async def test_the_way_from_the_waitlist_into_a_team_is_pages_and_letters_alone(deps: Deps, clock: FakeClock) -> None:
    root, ada = await admin(deps), await signed_in(deps, ADA)
    await waits(deps, "new@example.com")
    await root.submit("/app/waitlist", email="new@example.com")
    new = Browser(deps)
    signed = await new.submit(await newest_link(root))
    assert signed.status_code == 303
    assert "You are in no team" in (await new.get("/app/organizations")).text
    assert "new@example.com" in said((await root.get("/app/people?find=new@")).text)
    assert "Nobody waits" in (await root.get("/app/waitlist")).text
    team = await team_of(ada)
    clock.advance(60)
    await ada.submit(team, f"{team}/invite", email="new@example.com")
    invitation, *_ = values((await new.get("/app/organizations")).text, "invitation")
    await new.submit("/app/organizations", "/app/organizations/accept", invitation=invitation)
    clock.advance(60)
    await ada.submit(team, f"{team}/invite", email="other@example.com")
    other = Browser(deps)
    assert (await other.submit(await newest_link(root))).status_code == 303
    for taken in (new, other):
        assert ADA in (await taken.get(team)).text
    assert "None is open." in (await ada.get(team)).text
    root_sees = said((await root.get("/app/people")).text)
    assert root_sees.count("other@example.com") == 1


async def test_a_link_of_an_invitation_that_was_withdrawn_makes_nothing(deps: Deps, clock: FakeClock) -> None:
    root, ada = await admin(deps), await signed_in(deps, ADA)
    team = await team_of(ada)
    await ada.submit(team, f"{team}/invite", email="new@example.com")
    link = await newest_link(root)
    (invitation,) = values((await ada.get(team)).text, "invitation")
    await ada.submit(team, f"{team}/withdraw", invitation=invitation)
    assert (await Browser(deps).submit(link)).status_code == 410
    clock.advance(60)
    await root.submit("/app/people", email="new@example.com")
    link = await newest_link(root)
    await root.submit("/app/people", "/app/people/invitations/withdraw", email="new@example.com")
    assert (await Browser(deps).submit(link)).status_code == 410
    assert "Nobody found" in (await root.get("/app/people?find=new@")).text


async def newest_link(root: Browser) -> str:
    """The path of the link in the newest letter, as the Mailbox page shows it."""
    (letter, *_) = values((await root.get("/app/mailbox")).text, "letter")
    opened = await root.submit("/app/mailbox", "/app/mailbox/open", letter=letter)
    found = re.search(r"(/sign-in/link/riftl_[\w-]+)", opened.text)
    assert found, opened.text
    return found[1]


async def test_whoever_was_admitted_and_joins_a_team_waits_no_more(deps: Deps) -> None:
    root, ada = await admin(deps), await signed_in(deps, ADA)
    await waits(deps, BOB)
    bob = await signed_in(deps, BOB)
    await joins(ada, await team_of(ada), bob, BOB)
    assert "Nobody waits" in (await root.get("/app/waitlist")).text
