"""GitHub's pages: the App, coming back from there, accounts on the Organization page, one's own on Connections."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.behaviour.github.hub import WITH_APP
from tests.unit.people.house import act, caller, house, outcomes
from tests.wire.web.browsing import Browser
from tests.wire.web.teams import joins, said, signed_in, team_of

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.drivers.github.fake import APP, FakeGitHub
from rift.logins import actions as logins
from rift.logins.model import Step
from rift.people import actions as people
from rift.people.actions import operator

ADA, BOB, ROOT = "ada@example.com", "bob@example.com", "root@example.com"


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Deps]:
    """A Rift whose settings name its App."""
    async with house(database, tmp_path, clock) as made:
        yield replace(made, settings=WITH_APP)


def hub(deps: Deps) -> FakeGitHub:
    assert isinstance(deps.github, FakeGitHub)
    return deps.github


async def root(deps: Deps) -> Browser:
    browser = await signed_in(deps, ROOT)
    made = await people.set_admin(deps, operator(deps, "rift user admin", {}), ROOT, True)
    assert not isinstance(made, Refusal)
    return browser


async def log_in(deps: Deps, email: str, name: str) -> None:
    """The device flow of a person's agent."""
    who = await caller(deps, email)
    step = await logins.login(deps, act(who))
    assert isinstance(step, Step), step
    hub(deps).answer(step.code, name)
    assert isinstance(deps.clock, FakeClock)
    deps.clock.advance(5)
    assert await logins.login(deps, act(who)) == Step("connected", name)


async def to_github(browser: Browser, team: str) -> str:
    """The state with which a browser goes on to GitHub."""
    shown = await browser.submit(f"{team}/github")
    assert shown.status_code == 200, shown.text
    (url,) = set(re.findall(r'href="(https://github.com/apps/[^"]+)"', shown.text))
    return parse_qs(urlsplit(html.unescape(url)).query)["state"][0]


async def test_the_app_is_made_by_the_platform_admin_from_a_page_whose_form_goes_to_github(deps: Deps) -> None:
    bare = replace(deps, settings=deps.settings.model_copy(update={"github": type(deps.settings.github)()}))
    admin, other = await root(bare), await signed_in(bare, BOB)
    assert (await other.get("/github/app/new")).status_code == 404
    assert (await other.get("/github/app/made?code=x&state=y")).status_code == 404
    page = await admin.get("/github/app/new?org=acme-inc")
    assert page.status_code == 200
    assert "form-action 'self' https://github.com" in page.headers["content-security-policy"]
    action = html.unescape(re.findall(r'<form class="form" method="post" action="([^"]+)"', page.text)[0])
    assert action.startswith("https://github.com/organizations/acme-inc/settings/apps/new?state=")
    form = page.text[page.text.index("organizations/acme-inc") : page.text.index("</form>")]
    assert "csrf" not in form
    asked = json.loads(html.unescape(re.findall(r'name="manifest" value="([^"]*)"', page.text)[0]))
    assert asked["redirect_url"].endswith("/github/app/made")
    state = parse_qs(urlsplit(action).query)["state"][0]
    hub(bare).manifests["code1"] = APP
    made = await admin.get(f"/github/app/made?code=code1&state={state}")
    assert (made.status_code, "Enable Device Flow" in made.text) == (200, True)
    for secret in (APP.client_secret, APP.private_key, APP.webhook_secret):
        assert secret not in made.text
    assert (await admin.get(f"/github/app/made?code=code1&state={state}")).status_code == 410
    assert "takes the place of" in said((await admin.get("/github/app/new")).text)


async def test_a_browser_comes_back_from_github_and_the_account_is_on_the_organizations_page(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    there = hub(deps).install("acme-inc", "Organization", "ada-l")
    state = await to_github(ada, team)
    back = (
        f"/github/callback?code={hub(deps).code('ada-l')}&installation_id={there.id}&setup_action=install&state={state}"
    )
    stranger = Browser(deps)
    away = await stranger.get(back)
    assert (away.status_code, away.headers["location"].startswith("/sign-in?next=")) == (303, True)
    bob = await signed_in(deps, BOB)
    assert (await bob.get(back)).status_code == 410
    done = await ada.get(back)
    assert (done.status_code, done.headers["location"]) == (303, team)
    page = said((await ada.get(team)).text)
    assert "acme-inc is connected. Enable it" in page
    assert (await ada.get(back)).status_code == 410
    assert (await ada.submit(team, f"{team}/github/enable", account="acme-inc")).status_code == 303
    page = (await ada.get(team)).text
    assert "enabled" in page
    await joins(ada, team, bob, BOB)
    theirs = (await bob.get(team)).text
    assert "acme-inc" in theirs
    assert "/github/disable" not in theirs
    assert (await bob.submit(team, f"{team}/github/disable", installation=str(there.id))).status_code == 403
    assert (await ada.submit(team, f"{team}/github/disable", installation=str(there.id))).status_code == 303
    assert "Rift is off for acme-inc" in said((await ada.get(team)).text)
    told = [row[2:] for row in await outcomes(deps) if "github" in row[2]]
    assert ("web connect github", "ok") in told
    assert ("web disable github", "needs_admin") in told
    assert ("web disable github", "ok") in told


async def test_an_address_with_nonsense_for_a_way_back_connects_nothing(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    there = hub(deps).install("acme-inc", "Organization", "ada-l")
    for query in (
        "",
        "state=x",
        f"installation_id={there.id}",
        "installation_id=9" * 9,
        "setup_action=request&state=%ff",
    ):
        assert (await ada.get(f"/github/callback?{query}")).status_code == 410, query
    for number in ("-1", "1e3", "９", str(10**30), "x"):
        state = await to_github(ada, team)
        code = hub(deps).code("ada-l")
        said_no = await ada.get(f"/github/callback?code={code}&state={state}&installation_id={number}")
        assert said_no.status_code == 410, number
    async with deps.db.tx() as tx:
        assert await tx.rows("SELECT * FROM github_accounts") == []


async def test_where_an_owner_must_approve_that_is_said_and_the_page_shows_no_account(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    state = await to_github(ada, team)
    done = await ada.get(f"/github/callback?setup_action=request&state={state}")
    assert done.headers["location"] == team
    page = said((await ada.get(team)).text)
    assert "was asked to approve the App" in page
    assert "None is connected." in page


async def test_an_admin_chooses_among_the_accounts_that_have_the_app(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    await log_in(deps, ADA, "ada-l")
    first, second = (hub(deps).install(name, "Organization", "ada-l") for name in ("labs", "shop"))
    page = said((await ada.get(f"{team}/github")).text)
    assert "labs" in page
    assert "shop" in page
    done = await ada.submit(f"{team}/github", installation=str(second.id))
    assert done.headers["location"] == team
    assert "shop is connected" in said((await ada.get(team)).text)
    foreign = hub(deps).install("victim", "Organization", "somebody")
    assert (await ada.submit(f"{team}/github", installation=str(foreign.id))).status_code == 403
    assert "victim" not in (await ada.get(f"{team}/github")).text
    assert first.id != second.id
    bob = await signed_in(deps, BOB)
    assert (await bob.get(f"{team}/github")).status_code == 404


async def test_a_person_sees_their_github_account_and_disconnects_it(deps: Deps) -> None:
    bare = replace(deps, settings=deps.settings.model_copy(update={"github": type(deps.settings.github)()}))
    without = (await (await signed_in(bare, BOB)).get("/app/connections")).text
    assert ("rift_github_login" in without, "rift github app-manifest" in without) == (False, True)
    ada = await signed_in(deps, ADA)
    assert "rift_github_login" in (await ada.get("/app/connections")).text
    assert (await ada.submit("/app/connections", "/app/connections/github/disconnect")).status_code == 404
    await log_in(deps, ADA, "ada-l")
    page = said((await ada.get("/app/connections")).text)
    assert "You are ada-l" in page
    assert not [one for one in hub(deps).grants if one in page]
    done = await ada.submit("/app/connections", "/app/connections/github/disconnect")
    assert done.headers["location"] == "/app/connections"
    page = said((await ada.get("/app/connections")).text)
    assert "ada-l is disconnected; its tokens are revoked at GitHub." in page
    await log_in(deps, ADA, "ada-l")
    hub(deps).down = True
    await ada.submit("/app/connections", "/app/connections/github/disconnect")
    assert "GitHub could not be told: revoke the App in your settings there" in said(
        (await ada.get("/app/connections")).text
    )


async def test_github_being_away_is_a_page_that_says_so(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    team = await team_of(ada)
    await log_in(deps, ADA, "ada-l")
    hub(deps).down = True
    page = await ada.get(f"{team}/github")
    assert (page.status_code, "could not be asked" in page.text) == (503, True)


async def test_who_has_no_github_user_here_is_told_of_the_login_first_and_led_to_no_refusal(deps: Deps) -> None:
    ada = await signed_in(deps, ADA)
    own = re.findall(r'href="(/app/organizations/org_\w+)"', (await ada.get("/app/organizations")).text)[0]
    page = (await ada.get(own)).text
    assert "rift_github_login" in page
    assert f"{own}/github" not in page
    await log_in(deps, ADA, "ada-l")
    assert f'href="{own}/github"' in (await ada.get(own)).text
    assert (await ada.get(f"{own}/github")).status_code == 200
