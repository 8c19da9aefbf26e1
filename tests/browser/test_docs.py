"""The documentation in a real Chromium: each page at every width, the list beside it, the search by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Window
from tests.browser.site import Site
from tests.browser.test_every_page import THEMES, WIDTHS, _violations
from tests.browser.world import ADA

from rift.wire.docs import pages

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]

LOOKED_AT = ("tasks", "tools", "nix-guide", "onbe-settings")
"""Those that have something of each kind; the others are opened at the narrowest and the widest alone."""


def test_each_page_of_the_docs_is_good_at_every_width(chromium: Browser, site: Site, axe: str, pictures: Path) -> None:
    for theme in THEMES:
        with chromium.new_context(color_scheme=theme, reduced_motion="reduce") as context:
            window = Window(context, site)
            for page in pages.listed():
                if page.name not in LOOKED_AT and theme == "dark":
                    continue
                for width in WIDTHS if page.name in LOOKED_AT else (WIDTHS[0], WIDTHS[-1]):
                    window.page.set_viewport_size({"width": width, "height": 800})
                    shown = window.open(f"/docs/{page.name}")
                    if page.name in LOOKED_AT:
                        shown.screenshot(path=pictures / f"docs-{page.name}-{theme}-{width}.png")
                        assert _violations(shown, axe) == [], (page.name, width, theme)
                    beyond = shown.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
                    assert beyond <= 0, f"{page.name} at {width} px is {beyond} px too wide"
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
