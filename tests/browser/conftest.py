"""A real Chromium at real pages. Each test has a browser of its own, signed in as it asks."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, sync_playwright
from tests.browser.looking import Eye
from tests.browser.site import Site, served
from tests.wire.testers import installed

from keel.testing.plugin import Cluster

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
AXE, AXE_VERSION = "axe-core", "4.14.1"
PICTURES = "RIFT_TEST_PICTURES"
"""In the environment: the folder for pictures of the pages; without it none are taken."""


@pytest.fixture(scope="session")
def site(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Rift's pages, with a world to show."""
    name = f"browser_{os.getpid()}"
    try:
        with served(cluster.create(name), tmp_path_factory.mktemp("browser")) as made:
            yield made
    finally:
        cluster.drop(name)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. For one file's tests: what drives it is an event loop that no other test may meet."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def eye() -> Eye:
    """What looks at a page, with the checker of accessibility."""
    with ThreadPoolExecutor(1) as elsewhere:  # where no event loop runs
        home = elsewhere.submit(installed, AXE, AXE_VERSION).result()
    pictures = Path(os.environ[PICTURES]) if PICTURES in os.environ else None
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    return Eye((home / "node_modules" / AXE / "axe.min.js").read_text(encoding="utf-8"), pictures)


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, site: Site) -> Callable[[str], StorageState]:
    """The cookies of somebody who signed in once, for all the contexts of a file's tests that are only to be theirs."""

    @cache
    def cookies(email: str) -> StorageState:
        with chromium.new_context() as context:
            Window(context, site).sign_in(email)
            return context.storage_state()

    return cookies


class Window:
    """A browser of one person, and what went wrong in it: errors, what the policy forbade, requests to elsewhere."""

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.context, self.site = context, site
        self.wrong: list[str] = []
        self.page: Page = context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", lambda request: self._asked(request.url))

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.site.url, "data:")):
            self.wrong.append(f"a request to {url}")

    def sign_in(self, email: str) -> None:
        """As this person, by a link, as they do it."""
        self.page.goto(self.site.link(email))
        self.page.get_by_role("button", name=re.compile("^Sign in$")).click()
        self.page.wait_for_url(re.compile(r"/app"))

    def open(self, path: str) -> Page:
        """Go to a page of ours, which is there."""
        answer = self.page.goto(f"{self.site.url}{path}")
        assert answer is not None
        assert answer.status == 200, (path, answer.status)
        return self.page
