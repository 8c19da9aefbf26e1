"""The Secrets pages in a browser: full, empty, a member's, refused, a stranger's; set and removed without scripts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, StorageState, expect
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA, NEWCOMER, ODD

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]

SignedIn = Callable[[str], StorageState]
VALUE = "sk_live_4242424242424242"


@pytest.mark.parametrize(
    ("email", "repo", "shows"),
    [
        (ADA, "repo_app", "The key that sealed it is not on the server: set it again."),
        (ADA, "repo_web", "Set the first one below"),
        (ODD, "repo_engine", "its admins set and remove secrets."),
    ],
    ids=["full", "empty", "a member's"],
)
def test_a_repositorys_secrets_are_good_at_every_width_in_both_themes(
    chromium: Browser, site: Site, eye: Eye, signed_in: SignedIn, email: str, repo: str, shows: str
) -> None:
    with chromium.new_context(reduced_motion="reduce", storage_state=signed_in(email)) as context:
        window = Window(context, site)
        page = window.open(f"/app/secrets/{repo}")
        expect(page.get_by_text(shows).first).to_be_visible()
        assert page.get_by_role("button", name="Set").count() == (email == ADA)
        eye.everywhere(page, f"secret-{repo}")
        assert window.wrong == []


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [("PATH", VALUE, "every command in a box goes by it"), ("RIGHT", "x" * 65_537, "at most 65,536 are kept")],
    ids=["the name", "the value"],
)
def test_what_is_refused_is_told_beside_its_field_and_the_value_is_not_sent_back(
    chromium: Browser, site: Site, eye: Eye, signed_in: SignedIn, name: str, value: str, sentence: str
) -> None:
    with chromium.new_context(reduced_motion="reduce", storage_state=signed_in(ADA)) as context:
        window = Window(context, site)
        page = window.open("/app/secrets/repo_web")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Value").fill(value)
        page.get_by_role("button", name="Set").click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was set.")
        expect(page.locator("p.error")).to_contain_text(sentence)
        expect(page.get_by_label("Value")).to_have_value("")
        assert value not in page.content()
        eye.everywhere(page, f"secret-refused-{name.lower()}")


def test_one_is_set_and_removed_without_scripts_and_its_value_is_in_no_page(
    chromium: Browser, site: Site, signed_in: SignedIn
) -> None:
    with chromium.new_context(java_script_enabled=False, storage_state=signed_in(ADA)) as context:
        window = Window(context, site)
        page = window.open("/app/secrets/repo_web")
        page.get_by_label("Name").fill("NPM_TOKEN")
        page.get_by_label("Value").fill(VALUE)
        page.get_by_role("button", name="Set").click()
        expect(page.get_by_role("status")).to_contain_text("NPM_TOKEN is set")
        assert VALUE not in page.content()
        remove = page.get_by_role("button", name="Remove", exact=True)
        expect(remove).to_be_hidden()
        page.get_by_text("Remove… NPM_TOKEN").click()
        remove.click()
        expect(page.get_by_role("status")).to_contain_text("NPM_TOKEN is removed")
        expect(page.get_by_role("heading", name="No secret")).to_be_visible()
        assert window.wrong == []


def test_a_stranger_and_who_is_signed_out_are_shown_nothing_of_it(
    chromium: Browser, site: Site, eye: Eye, signed_in: SignedIn
) -> None:
    with chromium.new_context(reduced_motion="reduce", storage_state=signed_in(NEWCOMER)) as context:
        page = Window(context, site).page
        answer = page.goto(f"{site.url}/app/secrets/repo_app")
        assert answer is not None
        assert answer.status == 404
        assert "API_KEY" not in page.content()
        eye.everywhere(page, "secret-strangers")
    with chromium.new_context() as context:
        page = Window(context, site).open("/app/secrets/repo_app")
        assert page.url == f"{site.url}/sign-in?next=%2Fapp%2Fsecrets%2Frepo_app"
        assert "API_KEY" not in page.content()
