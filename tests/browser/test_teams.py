"""Teams in a real Chromium: the pages of one team and one person, and a member's way in and out without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA, GRACE

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]

TEAM = "/app/organizations/org_engines"
PAGES = (
    TEAM,
    f"{TEAM}/github",
    f"{TEAM}/leave",
    f"{TEAM}/members/user_odd",
    "/app/people/user_odd",
    "/app/people/user_out",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_one_team_or_person_is_good_at_every_width(
    chromium: Browser, site: Site, eye: Eye, path: str
) -> None:
    with chromium.new_context(reduced_motion="reduce") as context:
        window = Window(context, site)
        window.sign_in(ADA)
        shown = window.open(path)
        shown.locator(".confirm > summary").evaluate_all("all => all.forEach(one => one.click())")
        eye.everywhere(shown, re.sub(r"[^a-z0-9]+", "-", path.strip("/")))
        assert window.wrong == []


def test_a_form_that_is_refused_says_so_beside_its_field(chromium: Browser, site: Site, eye: Eye) -> None:
    """With an address that a browser takes, and we do not."""
    odd = f"{'w' * 65}@example.com"
    with chromium.new_context(viewport={"width": 360, "height": 800}, reduced_motion="reduce") as context:
        window = Window(context, site)
        window.sign_in(ADA)
        for path, label, typed, button in (
            ("/app/organizations", "Name of the team", "personal", "Make the team"),
            (TEAM, "Email address", ADA, "Invite"),
            ("/app/people", "Email address", odd, "Invite"),
            ("/waitlist", "Email address", odd, "Join the waitlist"),
        ):
            page = window.open(path)
            page.get_by_label(label).fill(typed)
            page.get_by_role("button", name=button, exact=True).click()
            page.get_by_role("alert").wait_for()
            assert page.title().startswith("Not ")
            field = page.get_by_label(label)
            assert (field.input_value(), field.get_attribute("aria-invalid")) == (typed, "true")
            assert page.locator(f"#{field.get_attribute('aria-describedby')}").is_visible()
            name = re.sub(r"[^a-z0-9]+", "-", path.strip("/"))
            eye.now(page, f"{name}-refused-light-360")
        assert [one for one in window.wrong if "409" not in one] == []


def test_a_team_is_made_joined_and_left_without_scripts(chromium: Browser, site: Site) -> None:
    with (
        chromium.new_context(java_script_enabled=False) as hers,
        chromium.new_context(java_script_enabled=False) as theirs,
    ):
        ada, grace = Window(hers, site), Window(theirs, site)
        ada.sign_in(ADA)
        grace.sign_in(GRACE)
        page = ada.open("/app/organizations")
        page.get_by_label("Name of the team").fill("Without scripts")
        page.get_by_role("button", name="Make the team").click()
        assert page.get_by_role("heading", level=1).inner_text() == "Without scripts"
        page.get_by_label("Email address").fill(GRACE)
        page.get_by_role("button", name="Invite").click()
        assert page.get_by_role("status").first.inner_text().startswith(f"{GRACE} is invited")
        other = grace.open("/app/organizations")
        other.get_by_role("button", name="Accept the invitation to Without scripts").click()
        assert other.get_by_role("heading", level=1).inner_text() == "Without scripts"
        other.get_by_role("link", name="Leave…").click()
        other.get_by_role("button", name="Leave the team").click()
        assert "no member of Without scripts any more" in other.get_by_role("status").first.inner_text()
        assert ada.wrong == grace.wrong == []
