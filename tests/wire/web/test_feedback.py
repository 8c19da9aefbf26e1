"""The Feedback page and the Inbox: an agent drafts by its tool, its person approves, the platform admin reads."""

from __future__ import annotations

import re

import pytest
from tests.unit.people.house import act, caller, outcomes, user
from tests.wire.web.browsing import Browser

from rift.feedback import actions
from rift.feedback.model import Added, Said
from rift.mail import actions as mail

HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(1)> & "quotes" {{ 7 * 7 }}'


async def drafted(browser: Browser, email: str, *items: Said, client: str = "Claude") -> list[str]:
    who = await caller(browser.deps, email, client)
    assert isinstance(await actions.add(browser.deps, act(who, "rift_feedback"), items), Added)
    return [item.id for item in await actions.draft(browser.deps, who)]


async def test_nothing_is_sent_until_its_person_ticks_and_submits_it(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    boss = Browser(browser.deps)
    await user(browser.deps, "boss@example.com", admin=True)
    await boss.sign_in("boss@example.com")
    await drafted(browser, "ada@example.com", Said("bug", "the first"), Said("improvement", "the second", "r-1"))
    page = (await browser.get("/app/feedback")).text
    assert "the first" in page
    assert "checked" not in page
    assert "Nothing here" in (await boss.get("/app/inbox")).text
    assert (await browser.submit("/app/feedback", "/app/feedback/submit")).status_code == 400
    assert "Nothing here" in (await boss.get("/app/inbox")).text
    first = re.findall(r'value="(fb_\w+)" form="submit"', page)[page.index("the first") > page.index("the second")]
    assert (await browser.submit("/app/feedback", "/app/feedback/submit", item=first)).status_code == 303
    page = (await browser.get("/app/feedback")).text
    assert "1 item is submitted" in page
    assert page.index("the second") < page.index("Submitted before") < page.index("the first")
    inbox = (await boss.get("/app/inbox")).text
    assert ("the first" in inbox, "the second" in inbox, "ada@example.com" in inbox) == (True, False, True)
    (letter,) = (await mail.list_letters(browser.deps)).letters
    assert (letter.email, letter.facts["items"]) == ("boss@example.com", 1)


async def test_several_items_are_ticked_and_submitted_together(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    ids = await drafted(browser, "ada@example.com", *(Said("bug", f"item {n}") for n in range(5)))
    html = (await browser.get("/app/feedback")).text
    csrf = re.search(r'name="csrf" value="([^"]*)"', html)
    assert csrf
    answer = await browser.client.post(
        "/app/feedback/submit", data={"csrf": csrf[1], "item": ids[:3]}, headers={"origin": browser.public}
    )
    assert answer.status_code == 303
    assert "3 items are submitted" in (await browser.get("/app/feedback")).text


async def test_a_draft_of_somebody_else_is_out_of_reach_by_every_form(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    (item,) = await drafted(browser, "ada@example.com", Said("bug", "a secret wish"))
    other = Browser(browser.deps)
    await user(browser.deps, "boss@example.com", admin=True)
    await other.sign_in("boss@example.com")
    assert "a secret wish" not in (await other.get("/app/feedback")).text
    tried = {
        "/app/feedback/edit": {"category": "bug", "text": "mine now"}, "/app/feedback/drop": {},
        "/app/feedback/submit": {}, "/app/inbox/handle": {"mark": "handled"},
    }  # fmt: skip
    for path, fields in tried.items():
        assert (await other.submit("/app/feedback", path, item=item, **fields)).status_code in (400, 404), path
        assert (await Browser(browser.deps).post(path, {"item": item, **fields})).status_code == 303
        assert (await browser.post(path, {"item": item, "csrf": "no", **fields})).status_code == 403
    assert "a secret wish" in (await browser.get("/app/feedback")).text


async def test_an_item_is_changed_and_dropped_on_the_page_and_the_record_has_not_its_text(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    (item,) = await drafted(browser, "ada@example.com", Said("bug", "the first words"))
    changed = {"item": item, "category": "improvement", "text": "other words\r\nand more", "context": "r-2"}
    assert (await browser.submit("/app/feedback", "/app/feedback/edit", **changed)).status_code == 303
    page = (await browser.get("/app/feedback")).text
    assert "other words\nand more" in page
    for odd in ({"category": "praise"}, {"category": ""}, {"text": " "}, {"text": "x" * 4001}, {"context": "x" * 4001}):
        assert (await browser.submit("/app/feedback", "/app/feedback/edit", **changed | odd)).status_code == 400
    assert (await browser.submit("/app/feedback", "/app/feedback/drop", item=item)).status_code == 303
    assert "No draft" in (await browser.get("/app/feedback")).text
    async with browser.deps.db.tx() as tx:
        assert not await tx.rows("SELECT 1 AS one FROM ledger l WHERE l::text LIKE '%%words%%'")
    assert [row[2] for row in await outcomes(browser.deps)][-1] == "web drop feedback"


async def test_hostile_items_stay_text_for_their_person_and_for_the_admin(browser: Browser) -> None:
    await user(browser.deps, "boss@example.com", admin=True)
    await browser.sign_in("boss@example.com")
    ids = await drafted(browser, "boss@example.com", Said("bug", HOSTILE, HOSTILE), client=HOSTILE[:60])
    pages = [await browser.get("/app/feedback")]
    await browser.submit("/app/feedback", "/app/feedback/submit", item=ids[0])
    pages += [await browser.get("/app/feedback"), await browser.get("/app/inbox")]
    for page in pages:
        assert page.status_code == 200
        assert "&lt;script&gt;" in page.text
        for mark in ("<script>alert", "<img", '"quotes"', "49"):
            assert mark not in page.text.replace("4900", "")


async def test_the_inbox_is_the_platform_admins_alone(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    (item,) = await drafted(browser, "ada@example.com", Said("bug", "one"))
    await browser.submit("/app/feedback", "/app/feedback/submit", item=item)
    assert (await browser.get("/app/inbox")).status_code == 404
    handled = await browser.submit("/app/feedback", "/app/inbox/handle", item=item, mark="handled")
    assert handled.status_code == 404
    assert "Inbox" not in (await browser.get("/app/feedback")).text
    assert (await actions.inbox(browser.deps, "open", None, 1)).open == 1


async def test_an_admin_marks_items_as_handled_filters_them_and_opens_them_again(browser: Browser) -> None:
    await user(browser.deps, "boss@example.com", admin=True)
    await browser.sign_in("boss@example.com")
    for said in (Said("bug", "crash one"), Said("improvement", "wish two")):
        (item,) = await drafted(browser, "boss@example.com", said)
        await browser.submit("/app/feedback", "/app/feedback/submit", item=item)
    (crash,) = re.findall(r'id="(fb_\w+)">', (await browser.get("/app/inbox?category=bug")).text)

    async def shown(query: str) -> tuple[bool, bool]:
        text = (await browser.get(f"/app/inbox{query}")).text
        return "crash one" in text, "wish two" in text

    assert (await shown(""), await shown("?category=bug")) == ((True, True), (True, False))
    done = await browser.submit(
        "/app/inbox", "/app/inbox/handle", item=crash, mark="handled", show="open", category="bug"
    )
    assert done.headers["location"] == "/app/inbox?category=bug"
    assert [await shown(query) for query in ("", "?show=handled", "?show=all", "?show=all&category=improvement")] == [
        (False, True), (True, False), (True, True), (False, True),
    ]  # fmt: skip
    await browser.submit("/app/inbox?show=handled", "/app/inbox/handle", item=crash, mark="open", show="handled")
    assert await shown("") == (True, True)
    for odd in ("", "fb_nothing", "x" * 3000):
        assert (await browser.submit("/app/inbox", "/app/inbox/handle", item=odd, mark="handled")).status_code == 404
    for query in ("?show=x&category=y&page=z", "?page=9999", "?category=%3Cscript%3E"):
        answer = await browser.get(f"/app/inbox{query}")
        assert answer.status_code == 200
        assert "<script>" not in answer.text.replace("<script src=", "")


@pytest.mark.parametrize("page", ["/app/feedback", "/app/inbox"])
async def test_what_was_submitted_stands_on_several_pages_newest_first(browser: Browser, page: str) -> None:
    await user(browser.deps, "boss@example.com", admin=True)
    await browser.sign_in("boss@example.com")
    for _ in range(3):
        for item in await drafted(browser, "boss@example.com", *[Said("bug", "again")] * 10):
            await actions.submit(browser.deps, act(await caller(browser.deps, "boss@example.com")), [item])
    first, second = [(await browser.get(path)).text for path in (page, f"{page}?page=2")]
    assert (first.count(">again<"), second.count(">again<")) == (actions.PAGE, 30 - actions.PAGE)
    assert f'href="{page}?page=2"' in first
    assert f'href="{page}"' in second
