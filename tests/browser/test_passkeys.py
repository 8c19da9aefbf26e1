"""Passkeys in a real Chromium, with an authenticator that the browser plays."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, CDPSession, expect
from tests.browser.conftest import Window
from tests.browser.site import Site
from tests.browser.world import NEWCOMER

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.timeout(120)]


def authenticator(window: Window, *, present: bool = True) -> CDPSession:
    """A device in this browser that its owner uses whenever it is asked (or never)."""
    session = window.context.new_cdp_session(window.page)
    session.send("WebAuthn.enable", {"enableUI": False})
    options = {
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
        "isUserVerified": True, "automaticPresenceSimulation": present,
    }  # fmt: skip
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session


@pytest.mark.parametrize("suggests", [True, False], ids=["by the address field", "by the button"])
def test_a_passkey_is_added_signs_in_and_is_removed(chromium: Browser, site: Site, suggests: bool) -> None:
    with chromium.new_context() as context:
        if not suggests:
            context.add_init_script("PublicKeyCredential.isConditionalMediationAvailable = async () => false")
        window = Window(context, site)
        page = window.page
        window.sign_in(NEWCOMER)
        authenticator(window)
        page.goto(f"{site.url}/app/account")
        page.get_by_label("Name of a new passkey").fill("Laptop")
        page.get_by_role("button", name="Add a passkey").click()
        expect(page.get_by_text("“Laptop” signs you in from now on.")).to_be_visible()
        page.get_by_label("Name of a new passkey").fill("Again")
        page.get_by_role("button", name="Add a passkey").click()
        expect(page.get_by_text("This device has a passkey for you already.")).to_be_visible()

        context.clear_cookies()
        page.goto(f"{site.url}/app/account")
        assert "/sign-in?next=" in page.url
        if not suggests:  # else its device takes the suggestion of the address field by itself
            page.get_by_role("button", name="Sign in with a passkey").click()
        page.wait_for_url(f"{site.url}/app/account")
        expect(page.get_by_role("cell", name="a passkey").first).to_be_visible()

        page.get_by_role("button", name="Remove Laptop").click()
        expect(page.get_by_text("“Laptop” signs nobody in any more.")).to_be_visible()
        assert window.wrong == []


def test_who_has_no_passkey_or_cancels_is_told_so(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        session = authenticator(window)
        page = window.page
        page.goto(f"{site.url}/sign-in")
        page.get_by_role("button", name="Sign in with a passkey").click()
        expect(page.get_by_text("Nothing was chosen, or it took too long.")).to_be_visible(timeout=20_000)
        session.send("WebAuthn.disable")


def test_at_an_address_without_a_name_the_page_says_where_passkeys_work(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        window = Window(context, site)
        window.page.goto(f"{site.url.replace('localhost', '127.0.0.1')}/sign-in?next=%2Fapp%2Faccount")
        link = window.page.get_by_role("link", name=site.url)
        expect(link).to_have_attribute("href", f"{site.url}/sign-in?next=%2Fapp%2Faccount")


def test_a_browser_without_passkeys_says_so(chromium: Browser, site: Site) -> None:
    with chromium.new_context() as context:
        context.add_init_script("delete window.PublicKeyCredential")
        window = Window(context, site)
        window.page.goto(f"{site.url}/sign-in")
        expect(window.page.get_by_text("This browser has no passkeys.")).to_be_visible()
        assert window.wrong == []
