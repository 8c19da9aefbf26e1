"""A letter of invitation, from the Mailbox page to the first page of who had no account."""

from __future__ import annotations

import re
from html import unescape

from tests.unit.people.house import act, caller, user
from tests.wire.web.browsing import Browser

from keel.refusal import Refusal
from rift.deps import Deps
from rift.invites import actions as invites
from rift.invites.model import Invited
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people.model import Caller

LINK = re.compile(r"http://127\.0\.0\.1:7433(/sign-in/link/riftl_[\w-]+)")
GRACE = "grace@example.com"


async def boss(deps: Deps) -> Caller:
    """The platform admin, who has a team."""
    await user(deps, "boss@example.com", admin=True)
    who = await caller(deps, "boss@example.com")
    assert not isinstance(await people.new_team(deps, act(who), "acme"), Refusal)
    return who


async def link_in_letter(browser: Browser, email: str) -> str:
    """What the Mailbox page shows of the letter to an address."""
    letter = next(one.id for one in (await mail.list_letters(browser.deps)).letters if one.email == email)
    shown = unescape((await browser.submit("/app/mailbox", "/app/mailbox/open", letter=letter)).text)
    (path,) = set(LINK.findall(shown))
    assert isinstance(path, str)
    return path


async def test_the_email_lets_who_has_no_account_make_one_and_be_in_the_team(browser: Browser) -> None:
    ada = await boss(browser.deps)
    await browser.sign_in("boss@example.com")
    assert isinstance(await invites.invite(browser.deps, act(ada), "acme", GRACE), Invited)
    path = await link_in_letter(browser, GRACE)
    other = Browser(browser.deps)
    assert "makes an account" in (await other.get(path)).text
    assert [one.email for one in await people.list_users(browser.deps)] == ["boss@example.com"]
    assert (await other.submit(path)).status_code == 303
    assert "acme" in (await other.get("/app/organizations")).text
    assert GRACE in [one.email for one in await people.list_users(browser.deps)]
    assert (await Browser(browser.deps).post(path, {})).status_code == 410


async def test_the_email_of_an_account_invitation_makes_an_account_and_no_more(browser: Browser) -> None:
    ada = await boss(browser.deps)
    await browser.sign_in("boss@example.com")
    assert isinstance(await invites.invite_account(browser.deps, act(ada), GRACE), Invited)
    other = Browser(browser.deps)
    assert (await other.submit(await link_in_letter(browser, GRACE))).status_code == 303
    page = (await other.get("/app/organizations")).text
    assert "acme" not in page


async def test_the_link_of_a_withdrawn_invitation_is_told_as_over_and_makes_nobody(browser: Browser) -> None:
    ada = await boss(browser.deps)
    await browser.sign_in("boss@example.com")
    done = await invites.invite(browser.deps, act(ada), "acme", GRACE)
    assert isinstance(done, Invited)
    path = await link_in_letter(browser, GRACE)
    assert not isinstance(await invites.withdraw(browser.deps, act(ada), "acme", done.invitation.id), Refusal)
    assert not (await mail.list_letters(browser.deps)).letters
    other = Browser(browser.deps)
    assert (await other.submit(path)).status_code == 410
    assert [one.email for one in await people.list_users(browser.deps)] == ["boss@example.com"]


async def test_a_link_signs_in_its_own_address_whoever_opens_it(browser: Browser) -> None:
    ada = await boss(browser.deps)
    await browser.sign_in("boss@example.com")
    assert isinstance(await invites.invite(browser.deps, act(ada), "acme", GRACE), Invited)
    path = await link_in_letter(browser, GRACE)
    eve = Browser(browser.deps)
    await eve.sign_in("eve@example.com")
    assert "That ends when you go on" in (await eve.get(path)).text
    assert (await eve.submit(path)).status_code == 303
    async with browser.deps.db.tx() as tx:
        known = await people.find(tx, "eve@example.com")
        assert known is not None
        assert [one.name for one in await people.memberships(tx, known.id)] == ["personal"]
