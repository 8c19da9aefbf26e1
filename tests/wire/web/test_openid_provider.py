"""Single sign-on with a certified OpenID provider that is not ours, end to end."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.unit.people.house import user
from tests.wire.provider import CLIENT, SECRET, came_back, provider
from tests.wire.web.browsing import Browser

from keel.clock import SystemClock
from rift.deps import Deps
from rift.drivers.signon.oidc import OidcConfig, OidcSignOn
from rift.identities.actions import BACK

pytestmark = pytest.mark.needs("node", "npm")

PUBLIC = "https://desk.example"


async def signed_in(deps: Deps, person: str) -> tuple[Browser, httpx2.Response]:
    """A browser goes there and comes back."""
    browser = Browser(deps, PUBLIC)
    page = await browser.submit("/sign-in", "/sign-in/sso", next="/app/boxes")
    found = re.search(r'content="0; url=([^"]*)"', page.text)
    assert found, page.text
    async with httpx2.AsyncClient(trust_env=False) as there:
        where = urlsplit(await came_back(there, unescape(found[1]), person, PUBLIC))
    return browser, await browser.client.get(f"{where.path}?{where.query}")


async def test_a_person_signs_in_at_a_certified_provider_and_is_known_again(deps: Deps) -> None:
    async with provider("urn:rift", f"{PUBLIC}{BACK}") as issuer:
        there = deps.settings.sign_in.model_copy(update={"oidc_issuer": issuer, "oidc_client": CLIENT})
        server = deps.settings.server.model_copy(update={"public_url": PUBLIC})
        clock = SystemClock()  # the provider's tokens are of the real time
        deps = replace(
            deps, clock=clock, signon=OidcSignOn(OidcConfig(issuer, CLIENT, SECRET), clock),
            settings=deps.settings.model_copy(update={"sign_in": there, "server": server}),
        )  # fmt: skip
        await user(deps, "ada@example.org")
        for _ in range(2):
            browser, answer = await signed_in(deps, "ada")
            assert (answer.status_code, answer.headers["location"]) == (303, "/app/boxes"), answer.text
            assert "ada@example.org" in (await browser.get("/app/account")).text
        _, refused = await signed_in(deps, "eve")
        assert "eve@example.org has no account here" in refused.text
        _, refused = await signed_in(deps, "unverified")
        assert "no verified email address" in refused.text
