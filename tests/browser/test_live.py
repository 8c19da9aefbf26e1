"""The page Boxes while somebody looks: what changes shows, and what they are at stays as it is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.browser.conftest import Window
from tests.browser.site import Site
from tests.browser.world import GRACE, NEWCOMER
from tests.unit.people.house import act, caller

from keel.refusal import Refusal
from rift.boxes import actions as boxes
from rift.deps import Deps
from rift.tasks import actions as tasks
from rift.tasks.model import Lease

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(120)]

LIVE = "#live-word"


def opened(site: Site, name: str, email: str = GRACE) -> Lease:
    """A task that an agent of this person opens."""

    async def run(deps: Deps) -> object:
        return await tasks.open_task(deps, act(await caller(deps, email)), name)

    lease = site.do(run)
    assert isinstance(lease, Lease)
    return lease


def closed(site: Site, lease: Lease, email: str = GRACE) -> None:
    """The task is given up by its agent."""

    async def run(deps: Deps) -> object:
        return await tasks.release(deps, act(await caller(deps, email)), lease.handle)

    site.do(run)


def put_away(site: Site, lease: Lease, email: str = GRACE) -> None:
    """The task is closed by its agent."""

    async def told(_: str) -> None:
        """Nobody waits."""

    async def run(deps: Deps) -> object:
        return await boxes.close_task(deps, act(await caller(deps, email)), lease.handle, told)

    assert not isinstance(site.do(run), Refusal)


def looking(window: Window, email: str = GRACE) -> Page:
    """The page, once it is live."""
    window.sign_in(email)
    page = window.open("/app/boxes")
    expect(page.locator(LIVE)).to_have_text("Live")
    return page


def test_a_task_shows_without_a_reload_and_what_is_at_hand_stays(chromium: Browser, site: Site) -> None:
    with chromium.new_context(viewport={"width": 900, "height": 500}) as context:
        first = opened(site, "the first of two")
        window = Window(context, site)
        page = looking(window)
        card = page.locator(f"#{first.task.id}")
        card.get_by_text("Hand it on, or put it away").click()
        card.get_by_role("button", name="Copy").focus()
        page.evaluate("scrollTo(0, 40)")
        page.evaluate("document.body.dataset.mark = 'the same page'")
        second = opened(site, "the second of two")
        expect(page.get_by_role("heading", name="the second of two")).to_be_visible()
        closed(site, first)
        expect(card.get_by_text("free", exact=True)).to_be_visible()
        assert page.evaluate("document.activeElement.closest('section').id") == first.task.id
        assert page.evaluate("document.activeElement.className") == "copy"
        assert card.locator("details").first.get_attribute("open") is not None
        assert page.evaluate("scrollY") == 40
        assert page.evaluate("document.body.dataset.mark") == "the same page"
        closed(site, second)
        assert window.wrong == []


def test_the_focus_stays_where_it_is_when_a_task_above_it_goes(chromium: Browser, site: Site) -> None:
    with chromium.new_context(viewport={"width": 900, "height": 500}) as context:
        above, mine = opened(site, "goes away"), opened(site, "stays here")
        window = Window(context, site)
        page = looking(window)
        card = page.locator(f"#{mine.task.id}")
        card.get_by_text("Hand it on, or put it away").click()
        card.get_by_role("button", name="Copy").focus()
        put_away(site, above)
        expect(page.locator(f"#{above.task.id}")).to_have_count(0)
        assert page.evaluate("document.activeElement.closest('section').id") == mine.task.id
        put_away(site, mine)
        assert window.wrong == []


def test_a_live_page_does_not_repeat_itself_to_a_screen_reader(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        page = looking(Window(context, site))
        page.evaluate(
            f"""() => {{
                window.said = 0;
                const seen = new MutationObserver(changes => window.said += changes.length);
                seen.observe(document.querySelector('{LIVE}'), {{childList: true, characterData: true, subtree: true}});
            }}"""
        )
        opened(site, "said by the page alone")
        expect(page.get_by_role("heading", name="said by the page alone")).to_be_visible()
        assert page.evaluate("window.said") == 0
        assert page.locator("[aria-live], [role=status], [role=alert]").evaluate_all(
            "all => all.every(one => !one.querySelector('section'))"
        )


def test_a_command_is_copied_by_its_button_which_says_so(chromium: Browser, site: Site) -> None:
    with chromium.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        window = Window(context, site)
        window.sign_in(NEWCOMER)
        page = window.open("/app")
        button = page.get_by_role("button", name="Copy").first
        button.click()
        expect(page.get_by_role("status").get_by_text("Copied").first).to_be_attached()
        assert page.evaluate("navigator.clipboard.readText()") == f"{site.url}/mcp"
        expect(button).to_have_text("Copy")
        assert window.wrong == []


def test_signing_out_elsewhere_is_told_with_the_way_back(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        page = looking(window)
        other = context.new_page()
        other.goto(f"{site.url}/app/account")
        other.get_by_role("button", name="Sign out", exact=True).first.click()
        other.wait_for_url(re.compile("/sign-in"))
        page.bring_to_front()
        expect(page.locator(LIVE)).to_contain_text("You are signed out.", timeout=15_000)
        assert page.locator(LIVE).get_by_role("link").get_attribute("href") == "/sign-in?next=%2Fapp%2Fboxes"


def test_a_connection_that_breaks_is_told_in_words_and_comes_back(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        page = looking(Window(context, site))
        context.set_offline(True)
        page.evaluate("dispatchEvent(new Event('pagehide'))")  # the socket that is open does not notice
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        expect(page.locator(LIVE)).to_have_text("Reconnecting…", timeout=15_000)
        context.set_offline(False)
        expect(page.locator(LIVE)).to_have_text("Live", timeout=40_000)


def test_more_windows_than_may_be_live_say_so_and_stay_good(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        window.sign_in(GRACE)
        # What a window of one's own has: Playwright shows all pages of a context as visible.
        pages = [context.new_page() for _ in range(5)]
        for page in pages:
            page.goto(f"{site.url}/app/boxes")
        expect(pages[-1].locator(LIVE)).to_contain_text("too many", timeout=15_000)
        assert pages[-1].get_by_role("heading", name="Boxes").is_visible()
        pages[0].close()
        expect(pages[-1].locator(LIVE)).to_have_text("Live", timeout=40_000)
