"""Letters and feedback in a real Chromium: a letter as its reader sees it, as an admin opens it; a draft submitted."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from playwright.sync_api import Browser, Request
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA, GRACE, LONG, MARKUP
from tests.unit.mail.test_texts import FACTS, PUBLIC
from tests.unit.people.house import act, caller

from rift import letters
from rift.deps import Deps
from rift.feedback import actions as feedback
from rift.feedback.model import Said
from rift.mail.model import Kind

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]


@pytest.mark.parametrize("kind", list(FACTS))
def test_a_letter_is_good_to_read_at_every_width_and_asks_for_nothing(chromium: Browser, eye: Eye, kind: Kind) -> None:
    odd = {"team": f"{MARKUP}{LONG}", "inviter": MARKUP, "sender": f"{LONG}@example.com"}
    facts = {name: odd.get(name, value) for name, value in FACTS[kind].items()}
    link = f"{PUBLIC}/sign-in/link/riftl_{'x' * 43}"
    made = letters.render(
        kind, facts, to=f"{'t' * 64}@example.com", public=PUBLIC, link=link, good_for=timedelta(days=14)
    )
    with chromium.new_context() as context:
        asked: list[str] = []
        page = context.new_page()
        page.on("request", partial(_note, asked))
        page.set_content(made.html)
        eye.everywhere(page, f"letter-{kind}")
        assert page.locator("script").count() == 0
        assert asked == []


@pytest.mark.parametrize("scripts", [True, False])
def test_an_admin_opens_a_letter_and_its_link_signs_its_reader_in(
    chromium: Browser, site: Site, eye: Eye, scripts: bool
) -> None:
    with (
        chromium.new_context(java_script_enabled=scripts, viewport={"width": 360, "height": 800}) as hers,
        chromium.new_context() as theirs,
    ):
        admin, reader = Window(hers, site), Window(theirs, site)
        admin.sign_in(ADA)
        page = admin.open("/app/mailbox")
        row = page.get_by_role("row").filter(has_text="Link to sign in").first
        row.get_by_role("button", name="Open").click()
        assert page.get_by_role("heading", level=1).inner_text() == "Your link to sign in to Rift"
        if scripts:
            eye.now(page, "letter-opened")
        link = page.locator(".command code").inner_text()
        reader.page.goto(link)
        reader.page.get_by_role("button", name="Sign in").click()
        reader.page.wait_for_url("**/app")
        assert ADA in reader.page.locator("body").inner_text()
        assert admin.wrong == reader.wrong == []


@pytest.mark.parametrize("scripts", [True, False])
def test_a_person_changes_ticks_and_submits_and_the_admin_handles_it(
    chromium: Browser, site: Site, scripts: bool
) -> None:
    stays, before, goes = f"stays {scripts}", f"before {scripts}", f"goes {scripts}"

    async def draft(deps: Deps) -> None:
        who = await caller(deps, GRACE)
        await feedback.add(deps, act(who, "rift_feedback"), [Said("bug", stays), Said("bug", before)])

    site.do(draft)
    with (
        chromium.new_context(java_script_enabled=scripts) as hers,
        chromium.new_context(java_script_enabled=scripts) as theirs,
    ):
        grace, admin = Window(hers, site), Window(theirs, site)
        grace.sign_in(GRACE)
        page = grace.open("/app/feedback")
        card = page.locator("section.card").filter(has_text=before).filter(has=page.get_by_role("checkbox"))
        card.get_by_text("Change").click()
        card.get_by_label("Text", exact=True).fill(goes)
        card.get_by_role("button", name="Save").click()
        page.get_by_label(f"Submit this item: {goes}").check()
        page.get_by_role("button", name="Submit what is ticked").click()
        assert page.get_by_role("status").first.inner_text() == "1 item is submitted. Thank you."
        assert page.get_by_label(f"Submit this item: {stays}").count() == 1
        admin.sign_in(ADA)
        inbox = admin.open("/app/inbox")
        assert stays not in inbox.locator("main").inner_text()
        inbox.locator("section.card").filter(has_text=goes).get_by_role("button", name="Mark as handled").click()
        assert goes not in inbox.locator("main").inner_text()
        inbox.get_by_role("link", name="Handled").click()
        assert goes in inbox.locator("main").inner_text()
        assert grace.wrong == admin.wrong == []


def _note(asked: list[str], request: Request) -> None:
    asked.append(request.url)
