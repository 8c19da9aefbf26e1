"""Signing in elsewhere, and which account that opens."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx2
import psycopg
import pytest
from tests.unit.people.house import user
from tests.wire.web.browsing import Browser

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.audit import SystemAct
from rift.deps import Deps
from rift.drivers.signon.fake import FakeSignOn
from rift.drivers.signon.protocol import Claim
from rift.invites import actions as invites
from rift.people import actions as people

ISSUER = "https://id.example.org"
SSO, BACK, UNLINK = "/sign-in/sso", "/sign-in/sso/back", "/app/account/identities/unlink"


@dataclass
class Place:
    """A Rift with a provider."""

    deps: Deps
    provider: FakeSignOn

    def browser(self) -> Browser:
        return Browser(self.deps)

    def knows(self, name: str, email: str | None, subject: str = "") -> None:
        self.provider.people[name] = Claim(ISSUER, subject or f"sub-{name}", email)

    async def sign_in(self, browser: Browser, name: str, next: str = "") -> httpx2.Response:
        url = await begun(browser, next)
        return await back(browser, code=self.provider.code(name, state(url)), state=state(url), iss=ISSUER)


@pytest.fixture
async def place(deps: Deps) -> Place:
    provider = FakeSignOn(ISSUER)
    there = deps.settings.sign_in.model_copy(update={"oidc_domains": ("corp.example",), "oidc_name": "<b>Corp</b>"})
    settings = deps.settings.model_copy(update={"sign_in": there})
    return Place(replace(deps, signon=provider, settings=settings), provider)


def state(url: str) -> str:
    return parse_qs(urlsplit(url).query)["state"][0]


async def begun(browser: Browser, next: str = "") -> str:
    answer = await browser.submit("/sign-in", SSO, next=next)
    assert answer.status_code == 200, answer.text
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', answer.text)
    assert found
    return unescape(found[1])


async def back(browser: Browser, **said: str) -> httpx2.Response:
    return await browser.client.get(BACK, params=said)


async def accounts(deps: Deps) -> list[str]:
    return [one.email for one in await people.list_users(deps)]


async def records(deps: Deps) -> list[tuple[str, str, bool]]:
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT action, outcome, actor FROM ledger WHERE via = 'web' ORDER BY seq")
    return [(row["action"], row["outcome"], row["actor"] is not None) for row in rows]


async def test_a_verified_address_opens_its_account_and_is_linked_with_it(place: Place) -> None:
    await user(place.deps, "ada@example.org")
    place.knows("ada", "ADA@example.org")
    browser = place.browser()
    assert "Continue with &lt;b&gt;Corp" in (await browser.get("/sign-in")).text
    answer = await place.sign_in(browser, "ada", "/app/boxes?a=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/app/boxes?a=1")
    page = (await browser.get("/app/account")).text
    assert "single sign-on" in page
    assert "sub-ada" in page
    assert await records(place.deps) == [("web link sign-on", "ok", True), ("web sign in", "ok", True)]
    place.knows("ada", "ada@moved.example")
    again = place.browser()
    assert (await place.sign_in(again, "ada")).status_code == 303
    assert "ada@example.org" in (await again.get("/app/account")).text, "the account is the subject's"
    place.knows("ada", None)
    assert (await place.sign_in(place.browser(), "ada")).status_code == 303, "whom we know, we know without an address"


async def test_an_address_that_changes_hands_takes_no_account_along(place: Place) -> None:
    await user(place.deps, "ada@example.org")
    await user(place.deps, "eve@example.org")
    place.knows("ada", "ada@example.org")
    place.knows("eve", "eve@example.org")
    for name in ("ada", "eve"):
        await place.sign_in(place.browser(), name)
    place.knows("eve", "ada@example.org")
    browser = place.browser()
    await place.sign_in(browser, "eve")
    assert "eve@example.org" in (await browser.get("/app/account")).text, "still her own"
    place.knows("zoe", "ada@example.org")
    refused = await place.sign_in(place.browser(), "zoe")
    assert refused.status_code == 403
    assert "belongs to somebody else" in refused.text
    assert (await records(place.deps))[-1] == ("web sign in", "sign_on_taken", False)


async def test_an_address_without_an_account_gets_one_by_its_domain_or_is_told_whom_to_ask(place: Place) -> None:
    place.knows("bob", "bob@Corp.Example")
    place.knows("eve", "eve@sub.corp.example")
    assert (await place.sign_in(place.browser(), "bob")).status_code == 303
    assert await accounts(place.deps) == ["bob@Corp.Example"]
    refused = await place.sign_in(place.browser(), "eve")
    assert refused.status_code == 403
    assert "the platform admin" in refused.text
    for odd in ("eve@corp.example.evil.example", "@corp.example", "eve@evil@corp.example", "<x>@corp.example"):
        place.knows("odd", odd)
        assert (await place.sign_in(place.browser(), "odd")).status_code == 403, odd
    assert await accounts(place.deps) == ["bob@Corp.Example"]


async def test_an_invited_address_gets_its_account(place: Place) -> None:
    act = SystemAct("rift user invite", {}, 1000.0)
    assert not isinstance(await invites.invite_account(place.deps, act, "eve@example.org"), Refusal)
    place.knows("eve", "Eve@example.org")
    assert (await place.sign_in(place.browser(), "eve")).status_code == 303
    assert await accounts(place.deps) == ["Eve@example.org"]


async def test_an_unverified_address_opens_nothing_and_makes_nothing(place: Place) -> None:
    await user(place.deps, "ada@example.org")
    place.knows("ada", None)
    refused = await place.sign_in(place.browser(), "ada")
    assert refused.status_code == 403
    assert "no verified email address" in refused.text
    assert await accounts(place.deps) == ["ada@example.org"]


async def test_of_two_first_sign_ins_at_once_one_account_and_one_link_come(place: Place) -> None:
    place.knows("bob", "bob@corp.example")
    browsers = [place.browser() for _ in range(6)]
    done = await asyncio.gather(*(place.sign_in(browser, "bob") for browser in browsers))
    assert {answer.status_code for answer in done} == {303}
    assert await accounts(place.deps) == ["bob@corp.example"]
    assert [one[0] for one in await records(place.deps)].count("web link sign-on") == 1


async def test_what_another_browser_began_signs_nobody_in_here(place: Place) -> None:
    """A state that is stolen, guessed or planted: whoever comes back must have begun it."""
    await user(place.deps, "eve@example.org")
    place.knows("eve", "eve@example.org")
    eve, victim = place.browser(), place.browser()
    url = await begun(eve)
    code = place.provider.code("eve", state(url))
    assert (await back(victim, code=code, state=state(url), iss=ISSUER)).status_code == 410, "no cookie"
    mine = await begun(victim)
    assert (await back(victim, code=code, state=state(url), iss=ISSUER)).status_code == 410, "another's state"
    assert (await back(victim, code=code, state=state(mine), iss=ISSUER)).status_code == 403, "another's code"
    assert (await victim.get("/app/account")).status_code == 303
    again = await begun(victim)
    for wrong in ("", "x", "é", "x" * 10_000):
        assert (await back(victim, code="c", state=wrong)).status_code == 410
    assert (await back(victim, code=place.provider.code("eve", state(again)), state=state(again))).status_code == 303
    told = [outcome for action, outcome, _ in await records(place.deps) if action == "web sign in"]
    assert told == ["sign_on_refused", "ok"], "who has begun nothing fills no ledger"


async def test_what_came_back_once_or_too_late_is_over(place: Place, clock: FakeClock) -> None:
    await user(place.deps, "ada@example.org")
    place.knows("ada", "ada@example.org")
    browser = place.browser()
    url = await begun(browser)
    cookie = browser.client.cookies["rift_sso"]
    assert (await back(browser, code=place.provider.code("ada", state(url)), state=state(url))).status_code == 303
    replay = place.browser()
    replay.client.cookies.set("rift_sso", cookie)
    answer = await back(replay, code=place.provider.code("ada", state(url)), state=state(url))
    assert answer.status_code == 410
    late = place.browser()
    url = await begun(late)
    clock.advance(timedelta(minutes=5))
    assert (await back(late, code=place.provider.code("ada", state(url)), state=state(url))).status_code == 410


async def test_another_providers_answer_is_not_taken_for_this_ones(place: Place) -> None:
    await user(place.deps, "ada@example.org")
    place.knows("ada", "ada@example.org")
    browser = place.browser()
    url = await begun(browser)
    code = place.provider.code("ada", state(url))
    assert (await back(browser, code=code, state=state(url), iss="https://evil.example")).status_code == 403


async def test_a_provider_that_says_no_or_is_away_is_told(place: Place) -> None:
    browser = place.browser()
    url = await begun(browser)
    answer = await back(browser, error="<script>access_denied", state=state(url))
    assert answer.status_code == 403
    assert "<script>access" not in answer.text
    place.provider.down = True
    assert (await browser.submit("/sign-in", SSO)).status_code == 503
    place.provider.down = False
    url = await begun(browser)
    place.provider.down = True
    answer = await back(browser, code="code", state=state(url))
    assert answer.status_code == 503
    assert "/sign-in" in answer.text
    assert [one[1] for one in await records(place.deps)] == ["sign_on_refused", "sign_on_away"]


async def test_who_was_put_out_is_not_let_in_by_another_sign_in(place: Place, database: FreshDatabase) -> None:
    await user(place.deps, "ada@example.org")
    place.knows("ada", "ada@example.org")
    with psycopg.connect(database.owner) as connection:
        connection.execute("UPDATE users SET disabled_at = now()")
    assert (await place.sign_in(place.browser(), "ada")).status_code == 403
    with psycopg.connect(database.owner) as connection:
        assert connection.execute("SELECT count(*) FROM identities").fetchone() == (0,)


async def test_an_identity_is_unlinked_by_its_owner_alone(place: Place) -> None:
    for name in ("ada", "eve"):
        await user(place.deps, f"{name}@example.org")
        place.knows(name, f"{name}@example.org")
    ada, eve = place.browser(), place.browser()
    await place.sign_in(ada, "ada")
    await place.sign_in(eve, "eve")
    form = {"issuer": ISSUER, "subject": "sub-ada"}
    assert (await eve.submit("/app/account", UNLINK, **form)).status_code == 404
    assert (await ada.post(UNLINK, form)).status_code == 403, "without the form's token"
    assert (await ada.submit("/app/account", UNLINK, **form)).status_code == 303
    assert (await ada.submit("/app/account", UNLINK, **form)).status_code == 404
    assert "Not linked yet" in (await ada.get("/app/account")).text


@pytest.mark.parametrize("next", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x"])
async def test_another_sign_in_leads_nowhere_else(place: Place, next: str) -> None:
    await user(place.deps, "ada@example.org")
    place.knows("ada", "ada@example.org")
    assert (await place.sign_in(place.browser(), "ada", next)).headers["location"] == "/app"


async def test_without_a_provider_there_is_no_other_sign_in(browser: Browser) -> None:
    assert "Continue with" not in (await browser.get("/sign-in")).text
    assert (await browser.submit("/sign-in", SSO)).status_code == 404
    assert (await back(browser, code="x", state="y")).status_code == 404
    await browser.sign_in("ada@example.org")
    assert "Single sign-on" not in (await browser.get("/app/account")).text


async def test_a_way_is_begun_by_a_form_of_ours_alone(place: Place) -> None:
    answer = await place.browser().post(SSO, {}, {"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert (await place.browser().get(SSO)).status_code == 405


async def test_nothing_secret_of_the_way_is_in_the_database(place: Place) -> None:
    browser = place.browser()
    url = await begun(browser)
    async with place.deps.db.tx() as tx:
        rows = await tx.rows(
            "SELECT ceremonies::text AS text FROM ceremonies UNION ALL SELECT ledger::text FROM ledger"
        )
    secrets = (browser.client.cookies["rift_sso"], state(url))
    assert not [row for row in rows if any(secret in row["text"] for secret in secrets)]
