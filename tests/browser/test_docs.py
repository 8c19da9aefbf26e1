"""The documentation in a real Chromium: each page at every width, the list beside it, the search by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Window
from tests.browser.looking import WIDTHS, Eye, fits
from tests.browser.site import Site
from tests.browser.world import ADA

from rift.wire.docs import pages

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]

LOOKED_AT = ("onboarding", "tasks", "nix-guide", "onbe-settings")
"""Those that have something of each kind; the others are opened at the narrowest and the widest alone."""


def test_each_page_of_the_docs_is_good_at_every_width(chromium: Browser, site: Site, eye: Eye) -> None:
    with chromium.new_context(reduced_motion="reduce") as context:
        window = Window(context, site)
        for page in pages.listed():
            shown = window.open(f"/docs/{page.name}")
            if page.name in LOOKED_AT:
                eye.everywhere(shown, f"docs-{page.name}")
                continue
            for width in (WIDTHS[0], WIDTHS[-1]):
                shown.set_viewport_size({"width": width, "height": 800})
                fits(shown, f"{page.name} at {width} px")
        assert window.wrong == []


def test_the_docs_are_searched_and_read_by_keyboard_without_scripts(chromium: Browser, site: Site) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        window = Window(context, site)
        window.sign_in(ADA)
        shown = window.open("/docs")
        shown.get_by_label("Search the docs").focus()
        shown.keyboard.type("takeover lease")
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/docs/search?q=takeover+lease")
        shown.locator(".docs-found a").first.focus()
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/docs/*#*")
        assert shown.locator(".docs-page h1").count() == 1
        assert window.wrong == []
