"""Every page, as people see it: narrow and wide, light and dark, empty and full, with scripts and without."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, StorageState
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA, NEWCOMER

from rift.wire.web.site import PAGES

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]

SignedIn = Callable[[str], StorageState]
ELSEWHERE: dict[str, str] = {
    "/oauth2/authorize": "a client opens it with a question: test_consent",
    "/app/connections/{token}/revoke": "test_consent opens one of its person's",
    "/sign-in/sso/back": "who comes back from a provider is sent on: test_single_sign_on of the pages",
    "/sign-in/link/{secret}": "its link is made anew for each visit: test_signing_in",
    "/docs/{name:path}": "test_docs opens each of them",
    "/app/audit/export": "it is a file: test_audit of the pages",
    "/app/audit/{seq}": "test_audit opens records",
    "/app/audit/{seq}/proof": "it is a file: test_audit downloads it",
    "/app/repositories/live": "goes on for as long as it is looked at: test_repositories",
    "/app/repositories/{repo}/builds/{commit}": "test_repositories",
    "/app/repositories/{repo}/builds/{commit}/live": "goes on for as long as it is looked at: test_repositories",
    "/app/repositories/{repo}/builds/{commit}/log": "it is a file: test_repositories_page of the pages",
    "/app/secrets/{repo}": "test_secrets opens a full one, an empty one, a member's and a refused one",
    "/app/boxes/live": "goes on for as long as it is looked at: test_live",
    "/app/organizations/{org}": "test_teams opens one of its admin",
    "/app/organizations/{org}/leave": "test_teams",
    "/app/organizations/{org}/members/{user}": "test_teams",
    "/app/people/{person}": "test_teams",
    "/app/organizations/{org}/github": "test_teams, with the page that leads on to GitHub",
    "/github/callback": "who comes back from GitHub is sent on: test_github of the pages",
    "/github/app/made": "who comes back from GitHub with an App: test_github of the pages",
}
"""Pages that are not opened here by their path alone, and why."""


def paths() -> list[str]:
    """Every page that can be looked at."""
    return [page.path for page in PAGES if page.get is not None and page.path not in ELSEWHERE and "{" not in page.path]


def is_adas(path: str) -> bool:
    """Whether a page is looked at as Ada's and not as a stranger's."""
    return path.startswith("/app") or not next(page for page in PAGES if page.path == path).open


def test_every_page_is_looked_at_here_or_said_where() -> None:
    known = {page.path for page in PAGES if page.get is not None}
    assert {path for path in known if "{" in path} <= set(ELSEWHERE), "say in ELSEWHERE which test opens it"
    assert set(ELSEWHERE) <= known


@pytest.mark.parametrize("who", [ADA, NEWCOMER, None], ids=["full", "empty", "nobody"])
@pytest.mark.parametrize("path", paths())
def test_a_page_is_good_at_every_width_in_both_themes(
    chromium: Browser, site: Site, eye: Eye, signed_in: SignedIn, path: str, who: str | None
) -> None:
    page = next(page for page in PAGES if page.path == path)
    if (who is None and not page.open) or (who == NEWCOMER and page.admin):
        return
    with chromium.new_context(reduced_motion="reduce", storage_state=signed_in(who) if who else None) as context:
        window = Window(context, site)
        eye.everywhere(window.open(path), f"{re.sub(r'[^a-z0-9]+', '-', path.strip('/')) or 'home'}-{_who(who)}")
        assert window.wrong == []


@pytest.mark.parametrize("path", paths())
def test_a_page_says_the_same_without_scripts(chromium: Browser, site: Site, signed_in: SignedIn, path: str) -> None:
    state = signed_in(ADA) if is_adas(path) else None
    told = []
    for scripts in (True, False):
        with chromium.new_context(java_script_enabled=scripts, storage_state=state) as context:
            window = Window(context, site)
            shown = window.open(path)
            told.append(set(shown.locator("main").locator("h1, h2, h3, th, label, button").all_inner_texts()))
            assert window.wrong == []
    assert told[1] <= told[0]
    assert len(told[1]) >= 1


@pytest.mark.parametrize("path", paths())
def test_a_page_can_be_walked_by_the_keyboard(chromium: Browser, site: Site, signed_in: SignedIn, path: str) -> None:
    state = signed_in(ADA) if is_adas(path) else None
    with chromium.new_context(viewport={"width": 1440, "height": 900}, storage_state=state) as context:
        window = Window(context, site)
        shown = window.open(path)
        wanted = shown.evaluate(f"{REACHABLE}.length")
        met: set[int] = set()
        for _ in range(wanted + 5):
            shown.keyboard.press("Tab")
            at = shown.evaluate(f"{REACHABLE}.indexOf(document.activeElement)")
            if at < 0:
                continue
            if at not in met:
                assert shown.evaluate(SEEN), f"what has the focus cannot be told: {shown.evaluate(OUTER)}"
            met.add(at)
        assert len(met) == wanted, f"{path}: {sorted(set(range(wanted)) - met)} of {wanted} were not reached"


REACHABLE = """[...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]'
)].filter(one => !one.disabled && one.checkVisibility({visibilityProperty: true})
    && !(one.type === 'radio' && !one.checked))"""
SEEN = """(() => {
    const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const told = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== 'none';
    return told && box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0;
})()"""
OUTER = "document.activeElement.outerHTML.slice(0, 200)"


def _who(who: str | None) -> str:
    return {ADA: "full", NEWCOMER: "empty"}.get(who or "", "nobody")
