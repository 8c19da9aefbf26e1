"""Letting an MCP client in, as a person does it: Chromium opens what the client wants, and goes where it is sent."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientMetadata
from playwright.sync_api import Browser, Route
from tests.browser.conftest import Window
from tests.browser.looking import Eye
from tests.browser.site import Site
from tests.browser.world import ADA, LONG, MARKUP, NEWCOMER
from tests.wire.clients import text_of
from tests.wire.oauth.desk import CHALLENGE
from tests.wire.oauth.test_clients import Kept

from keel.refusal import Refusal
from rift.connections import actions
from rift.deps import Deps
from rift.mail import actions as mail

pytestmark = [pytest.mark.needs("chromium", "npm"), pytest.mark.timeout(180)]

WITHIN = 30.0


class Waiting:
    """A client's program that waits at a port of this computer for its answer."""

    def __init__(self) -> None:
        self.heard: queue.Queue[dict[str, str]] = queue.Queue()
        heard = self.heard

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/callback?"):
                    heard.put({name: one[0] for name, one in parse_qs(urlsplit(self.path).query).items()})
                body = b"<!doctype html><title>Back</title><h1>Back in the client</h1>"
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/callback"


@contextmanager
def waiting() -> Iterator[Waiting]:
    """Such a program, for the length of the block."""
    made = Waiting()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
        thread.join()


async def python_client(address: str, there: Waiting, wanted: queue.Queue[str]) -> str:
    """The official Python client: what its person is called, and who holds a task that it opened."""

    async def redirect(url: str) -> None:
        wanted.put(url)

    async def back() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(await asyncio.to_thread(there.heard.get, True, WITHIN))

    said = OAuthClientMetadata.model_validate({"client_name": "Python in Chromium", "redirect_uris": [there.url]})
    provider = OAuthClientProvider(address, said, Kept(), redirect, back)
    async with (
        create_mcp_http_client(auth=provider) as http,
        Client(streamable_http_client(address, http_client=http), cache=None) as client,
    ):
        opened = await client.call_tool("rift_task_new", {"name": "seen"})
        assert not opened.is_error
        listed = text_of(await client.call_tool("rift_task_ls", {}))
        return text_of(await client.call_tool("rift_whoami", {})) + listed


def link_on_to(site: Site, email: str, path: str) -> str:
    """A link that signs in and leads on, as the one in a letter does."""

    async def mint(deps: Deps) -> str:
        async with deps.db.tx() as tx:
            return await mail.mint(tx, deps, email, next=path)

    return f"{site.url}/sign-in/link/{site.do(mint)}"


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_client_is_let_in_by_a_click_after_signing_in_and_ended_by_another(
    chromium: Browser, site: Site, scripts: bool
) -> None:
    wanted: queue.Queue[str] = queue.Queue()
    address = f"{site.url}/mcp"
    with (
        waiting() as there,
        ThreadPoolExecutor(1) as elsewhere,
        chromium.new_context(java_script_enabled=scripts) as context,
    ):
        running = elsewhere.submit(lambda: asyncio.run(python_client(address, there, wanted)))
        window = Window(context, site)
        page = window.page
        asked = wanted.get(timeout=WITHIN)
        page.goto(asked)
        assert "/sign-in?next=%2Foauth2%2Fauthorize" in page.url
        page.goto(link_on_to(site, NEWCOMER, asked.removeprefix(site.url)))
        page.get_by_role("button", name=re.compile("^Sign in$")).click()
        page.get_by_role("heading", name="Let Python in Chromium act for you?").wait_for()
        assert page.get_by_text(NEWCOMER).locator("visible=true").count() > 0
        page.get_by_role("button", name="Allow", exact=True).click()
        page.get_by_role("heading", name="Back in the client").wait_for()
        said = running.result(WITHIN)
        assert NEWCOMER in said
        assert "mcp:Python in Chromium" in said
        window.open("/app/connections")
        row = page.get_by_role("row", name="Python in Chromium").first
        row.get_by_role("link", name="Disconnect").click()
        page.get_by_role("button", name="Disconnect").click()
        page.get_by_text("Python in Chromium is disconnected").wait_for()
        gone = {f"a request to {there.url}", f"a request to {there.url.removesuffix('/callback')}/favicon.ico"}
        assert [one for one in window.wrong if one.partition("?")[0] not in gone] == []


def test_a_client_is_turned_away_by_the_other_button(chromium: Browser, site: Site) -> None:
    with waiting() as there, chromium.new_context() as context:
        window = Window(context, site)
        window.sign_in(NEWCOMER)
        window.page.goto(f"{site.url}{asking(site, 'No', there.url)}")
        window.page.get_by_role("button", name="Do not allow").click()
        window.page.get_by_role("heading", name="Back in the client").wait_for()
        assert there.heard.get(timeout=WITHIN)["error"] == "access_denied"


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_a_client_elsewhere_may_send_the_browser_on_from_where_it_was_sent(
    chromium: Browser, site: Site, scripts: bool
) -> None:
    # As hosts of clients do, on to their application. The policy of a page whose form led there would hold that back.
    with waiting() as there, chromium.new_context(java_script_enabled=scripts) as context:
        page = context.new_page()

        def sent_on(route: Route) -> None:
            query = urlsplit(route.request.url).query
            route.fulfill(status=302, headers={"Location": f"{there.url}?{query}"})

        context.route("https://client.example/**", sent_on)
        page.goto(site.link(NEWCOMER))
        page.get_by_role("button", name=re.compile("^Sign in$")).click()
        page.wait_for_url(re.compile(r"/app"))
        page.goto(f"{site.url}{asking(site, 'Elsewhere', 'https://client.example/callback')}")
        page.get_by_role("button", name="Allow", exact=True).click()
        page.get_by_role("heading", name="Back in the client").wait_for()
        assert there.heard.get(timeout=WITHIN)["code"].startswith("riftc_")


def asking(site: Site, name: str, uri: str, **said: str) -> str:
    """What a new client opens in its person's browser."""
    client = site.do(lambda deps: actions.register(deps, {"client_name": name, "redirect_uris": [uri]}))
    assert not isinstance(client, Refusal)
    query = {
        "response_type": "code", "client_id": client.id, "redirect_uri": uri, "code_challenge": CHALLENGE,
        "code_challenge_method": "S256", "state": "s", **said,
    }  # fmt: skip
    return f"/oauth2/authorize?{urlencode(query)}"


PAGES = {
    "consent": ("Claude Code", "http://127.0.0.1:33418/callback", {}),
    "consent-odd": (MARKUP, f"https://{'very-long-label.' * 8}example.com/{LONG}", {}),
    "consent-app": (LONG, "cursor://anysphere.cursor-mcp/oauth/callback", {}),
    "consent-wrong": (MARKUP, f"https://client.example/{LONG}", {"response_type": "token"}),
    "consent-unknown": ("Claude", "https://client.example/", {"client_id": "client_nobody"}),
}


@pytest.mark.parametrize("name", [*PAGES, "connection"])
def test_its_pages_are_good_at_every_width_in_both_themes(chromium: Browser, site: Site, eye: Eye, name: str) -> None:
    with chromium.new_context(reduced_motion="reduce") as context:
        window = Window(context, site)
        window.sign_in(ADA)
        if name == "connection":
            href = window.open("/app/connections").get_by_role("link", name="Disconnect").first.get_attribute("href")
            path = str(href)
        else:
            client, uri, said = PAGES[name]
            path = asking(site, client, uri, **said)
        window.page.goto(f"{site.url}{path}")
        eye.everywhere(window.page, name)
        assert [one for one in window.wrong if "status of 400" not in one] == []
