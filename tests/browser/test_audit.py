"""The Audit page in a browser: narrowed by its form, a record with its proof, texts erased behind a second step."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA, MARKUP

from keel.ledger.proof import parse
from rift.records import actions

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(280)]


def test_a_record_is_good_at_every_width_in_both_themes(chromium: Browser, site: Site, eye: Eye) -> None:
    with chromium.new_context(reduced_motion="reduce") as context:
        window = Window(context, site)
        window.sign_in(ADA)
        window.open("/app/audit?tool=rift_bash&task=task_aaaa2222")
        window.page.get_by_role("link", name=re.compile(r"record \d+$")).first.click()
        expect(window.page.get_by_text(MARKUP[:30]).first).to_be_visible()
        eye.everywhere(window.page, "record")
        eye.everywhere(window.open("/app/audit?tool=rift_bash&task=task_aaaa2222"), "audit-narrowed")
        wrong = window.page.goto(f"{site.url}/app/audit?since=soon&task=mine")
        assert wrong is not None
        assert wrong.status == 400
        eye.everywhere(window.page, "audit-wrong")


def test_a_person_narrows_the_audit_opens_a_record_and_takes_its_proof(chromium: Browser, site: Site) -> None:
    site.do(actions.seal)
    with chromium.new_context(accept_downloads=True) as context:
        window = Window(context, site)
        window.sign_in(ADA)
        page = window.open("/app/audit")
        page.get_by_label("Outcome").fill("error")
        page.get_by_label("Task").fill("task_aaaa2222")
        page.get_by_role("button", name="Show").click()
        expect(page).to_have_url(re.compile(r"task=task_aaaa2222.*outcome=error"))
        expect(page.get_by_text("failed").first).to_be_visible()
        page.get_by_role("link", name=re.compile(r"record \d+$")).first.click()
        with page.expect_download() as taken:
            page.get_by_role("link", name="Download the proof").click()
        assert taken.value.suggested_filename.startswith("record-")
        assert parse(taken.value.path().read_text("utf-8")).problem() is None
        assert window.wrong == []


def test_texts_are_erased_by_a_click_behind_another(chromium: Browser, site: Site) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        window = Window(context, site)
        window.sign_in(ADA)
        page = window.open("/app/audit?task=task_aaaa2222")
        erase = page.get_by_role("button", name="Erase", exact=True)
        expect(erase).to_be_hidden()
        page.get_by_text("Erase these texts…").click()
        erase.click()
        expect(page.get_by_role("status")).to_contain_text("are erased for good")
        expect(page.get_by_text("0 kept for records")).to_be_visible()
        assert window.wrong == []
