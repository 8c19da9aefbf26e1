"""The Mailbox page: letters for whoever runs this Rift, opened with a link of their own, and for nobody else."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from tests.unit.people.house import outcomes, user
from tests.wire.web.browsing import Browser

from rift.deps import Deps
from rift.drivers.post.fake import FakePost
from rift.mail import actions as mail
from rift.mail import jobs
from rift.mail.model import Kind
from rift.wire.web.pages.mailbox import PAGES

LINK = re.compile(r"http://127\.0\.0\.1:7433(/sign-in/link/riftl_[\w-]+)")
ADMIN = "boss@example.com"


async def post(deps: Deps, kind: Kind, email: str, **facts: object) -> str:
    async with deps.db.tx() as tx:
        await mail.post(tx, deps, kind, email, facts)
    return next(one.id for one in (await mail.list_letters(deps)).letters if one.email == email)


async def admin(browser: Browser) -> None:
    await user(browser.deps, ADMIN, admin=True)
    await browser.sign_in(ADMIN)


async def test_a_letter_is_opened_with_a_link_of_its_own_that_signs_in_and_is_recorded(browser: Browser) -> None:
    await admin(browser)
    await user(browser.deps, "ada@example.com")
    id = await post(browser.deps, "sign_in", "ada@example.com", next="/app/boxes")
    page = (await browser.get("/app/mailbox")).text
    assert "No mail server is set" in page
    assert "ada@example.com" in page
    assert not LINK.search(page)
    first = (await browser.submit("/app/mailbox", "/app/mailbox/open", letter=id)).text
    second = (await browser.submit("/app/mailbox", "/app/mailbox/open", letter=id)).text
    links = [set(LINK.findall(unescape(text))) for text in (first, second)]
    assert [len(found) for found in links] == [1, 1]
    assert links[0] != links[1]
    other = Browser(browser.deps)
    assert (await other.submit(links[0].pop())).headers["location"] == "/app/boxes"
    assert "ada@example.com" in (await other.get("/app/boxes")).text
    assert [row[2:] for row in await outcomes(browser.deps)].count(("web open letter", "ok")) == 2


async def test_nobody_but_the_platform_admin_sees_the_mailbox_or_opens_a_letter(browser: Browser) -> None:
    await browser.sign_in("ada@example.com")
    id = await post(browser.deps, "trial", "grace@example.com")
    assert (await browser.get("/app/mailbox")).status_code == 404
    for page in PAGES:
        if page.post is not None:
            assert (await browser.submit("/app/boxes", page.path, letter=id)).status_code == 404
            assert (await Browser(browser.deps).post(page.path, {"letter": id})).status_code == 303
    assert len((await mail.list_letters(browser.deps)).letters) == 1
    assert "Mailbox" not in (await browser.get("/app/boxes")).text


async def test_where_letters_are_sent_the_page_tells_what_waits_and_what_was_given_up(deps: Deps) -> None:
    office = FakePost()
    browser = Browser(replace(deps, post=office))
    await admin(browser)
    office.refused["gone@example.com"] = "550 <b>no such mailbox</b>"
    given_up = await post(browser.deps, "trial", "gone@example.com")
    await jobs.send(browser.deps, given_up)
    sent = await post(browser.deps, "trial", "ada@example.com")
    await jobs.send(browser.deps, sent)
    office.away = "451 later"
    waits = await post(browser.deps, "trial", "grace@example.com")
    await jobs.send(browser.deps, waits)
    page = (await browser.get("/app/mailbox")).text
    for told in (
        "given up",
        "550 &lt;b&gt;no such mailbox&lt;/b&gt;",
        "tried again",
        "451 later",
        "1 waiting, 1 given up",
    ):
        assert told in page, told
    assert "No mail server is set" not in page
    del office.refused["gone@example.com"]
    office.away = None
    assert (await browser.submit("/app/mailbox", "/app/mailbox/retry", letter=given_up)).status_code == 303
    await jobs.send(browser.deps, given_up)
    assert [one["To"] for one in office.sent] == ["ada@example.com", "gone@example.com"]
    assert (await browser.submit("/app/mailbox", "/app/mailbox/retry", letter=sent)).status_code == 404
    assert (await browser.submit("/app/mailbox", "/app/mailbox/discard", letter=waits)).status_code == 303
    assert (
        "grace@example.com"
        not in (await browser.get("/app/mailbox")).text.partition("</table>")[0].partition("<table")[2]
    )


@pytest.mark.parametrize("letter", ["", "let_nobody", "x" * 5000, "' OR 1=1 --", "é\u202e"])
async def test_a_letter_that_is_not_there_is_told_whatever_it_is_called(browser: Browser, letter: str) -> None:
    await admin(browser)
    for page in PAGES:
        if page.post is not None:
            assert (await browser.submit("/app/mailbox", page.path, letter=letter)).status_code == 404


async def test_a_sign_in_letter_to_who_was_put_out_opens_no_more(browser: Browser) -> None:
    await admin(browser)
    id = await post(browser.deps, "sign_in", "nobody@example.com", next="")
    assert (await browser.submit("/app/mailbox", "/app/mailbox/open", letter=id)).status_code == 410


async def test_hostile_names_stay_text_on_the_page_and_in_an_opened_letter(browser: Browser) -> None:
    await admin(browser)
    hostile = "<script>alert(1)</script>"
    id = await post(browser.deps, "feedback", "boss@example.com", sender=f'{hostile}"@x', items=1, path="/app/inbox")
    for answer in (
        await browser.get("/app/mailbox"), await browser.submit("/app/mailbox", "/app/mailbox/open", letter=id),
    ):  # fmt: skip
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.text


@pytest.mark.parametrize("page", ["2", "0", "-1", "x", "99999999999999999999", "²", "", "1e3"])
async def test_the_page_is_there_whatever_the_address_says(browser: Browser, page: str) -> None:
    await admin(browser)
    assert (await browser.get(f"/app/mailbox?page={page}")).status_code == 200


async def test_many_letters_stand_on_several_pages(browser: Browser) -> None:
    await admin(browser)
    for number in range(mail.PAGE + 1):
        await post(browser.deps, "trial", f"person-{number}@example.com")
    first, second = [(await browser.get(path)).text for path in ("/app/mailbox", "/app/mailbox?page=2")]
    assert 'href="/app/mailbox?page=2"' in first
    assert 'href="/app/mailbox"' in second
    assert (first.count("<tr>"), second.count("<tr>")) == (mail.PAGE + 1, 2)
