"""Signing in with a browser, as people do it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Window
from tests.browser.site import Site
from tests.browser.world import ADA, NEWCOMER

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(120)]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_link_signs_in_and_the_button_signs_out(chromium: Browser, site: Site, scripts: bool) -> None:
    with chromium.new_context(java_script_enabled=scripts) as context:
        window = Window(context, site)
        window.sign_in(NEWCOMER)
        window.open("/app/boxes")
        assert window.page.get_by_role("heading", name="Boxes").is_visible()
        (cookie,) = [one for one in context.cookies() if one["name"] == "rift_session"]
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/")
        window.page.get_by_role("button", name="Sign out").click()
        window.page.wait_for_url(f"{site.url}/sign-in")
        window.page.goto(f"{site.url}/app/boxes")
        assert "/sign-in?next=" in window.page.url
        assert window.wrong == []


def test_whoever_was_sent_to_sign_in_comes_back_to_their_page(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        window.page.goto(f"{site.url}/app/boxes")
        assert window.page.url == f"{site.url}/sign-in?next=%2Fapp%2Fboxes"


def test_markup_in_a_name_is_text_on_every_page(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        window.page.on("dialog", lambda dialog: window.wrong.append(f"a dialog: {dialog.message}"))
        window.sign_in(ADA)
        shown = window.open("/app/boxes")
        assert shown.get_by_text("<script>alert('pwned')</script>").first.is_visible()
        assert window.wrong == []
