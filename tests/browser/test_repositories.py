"""The page Repositories and a build of one: live, at every width, and found and changed without scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, StorageState, expect
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA
from tests.unit.people.house import act, caller

from rift.deps import Deps
from rift.environments import actions as environments
from rift.repos import actions as repos
from rift.repos.model import Unwatched, Watched

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]

SignedIn = Callable[[str], StorageState]
BUILDING, FAILED = "5d8e2179" * 5, "a0b1c2d3" * 5


@pytest.mark.parametrize("commit", [BUILDING, FAILED, "0" * 40], ids=["building", "failed", "none"])
def test_a_build_is_good_at_every_width_in_both_themes(
    chromium: Browser, site: Site, eye: Eye, signed_in: SignedIn, commit: str
) -> None:
    with chromium.new_context(reduced_motion="reduce", storage_state=signed_in(ADA)) as context:
        window = Window(context, site)
        eye.everywhere(window.open(f"/app/repositories/repo_app/builds/{commit}"), f"build-{commit[:4]}")
        assert window.wrong == []


def test_what_is_watched_shows_without_a_reload_and_what_is_folded_open_stays(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        window.sign_in(ADA)
        page = window.open("/app/repositories?q=acme/app")
        expect(page.locator("#live-word")).to_have_text("Live")
        card = page.locator("#repo_app")
        card.get_by_text("Change it").click()
        page.evaluate("document.body.dataset.mark = 'the same page'")

        async def change(deps: Deps) -> object:
            return await repos.watch(deps, act(await caller(deps, ADA)), "acme/app", "main", 5)

        assert isinstance(site.do(change), Watched)
        expect(card.get_by_text("0 of 5 ready")).to_be_visible()
        assert card.locator("details.more", has_text="Ask an agent of yours").get_attribute("open") is not None
        assert page.evaluate("document.body.dataset.mark") == "the same page"

        async def back(deps: Deps) -> object:
            return await repos.watch(deps, act(await caller(deps, ADA)), "acme/app", "main", 2)

        assert isinstance(site.do(back), Watched | Unwatched)
        assert window.wrong == []


def test_a_log_goes_on_while_it_is_looked_at(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        window.sign_in(ADA)
        page = window.open(f"/app/repositories/repo_app/builds/{BUILDING}")
        expect(page.locator("#live-word")).to_have_text("Live")

        async def say(deps: Deps) -> object:
            async with deps.db.tx() as tx:
                built = await environments.of_head(tx, "repo_app", BUILDING)
            assert built is not None
            await environments.put_log(deps, built, 1_000_000, b"linking the last of it\n")
            return None

        site.do(say)
        expect(page.get_by_text("linking the last of it")).to_be_visible()
        assert window.wrong == []


def test_a_repository_is_found_and_opened_to_pushes_without_scripts(
    chromium: Browser, site: Site, signed_in: SignedIn
) -> None:
    with chromium.new_context(java_script_enabled=False, storage_state=signed_in(ADA)) as context:
        window = Window(context, site)
        page = window.open("/app/repositories")
        page.get_by_role("textbox", name="Name").fill("service-11")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("rowheader", name="acme-inc/service-117")).to_be_visible()
        expect(page.get_by_role("rowheader", name="acme-inc/service-20")).to_have_count(0)
        page.goto(f"{site.url}/app/repositories?q=acme/app")
        page.get_by_text("Change it").click()
        page.get_by_role("button", name="Open watched refs").click()
        expect(page.get_by_text("Boxes of acme/app push to any branch but its default branch.")).to_be_visible()
        page.get_by_text("Change it").click()
        page.get_by_role("button", name="Close watched refs").click()
        expect(page.get_by_text("but its default branch and watched refs").first).to_be_visible()
        assert window.wrong == []
