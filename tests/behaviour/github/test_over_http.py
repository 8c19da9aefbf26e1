"""From nothing to an account that is on, over HTTP: our pages, a browser at GitHub's, and the three tools' actions."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.github.standin import StandIn
from tests.unit.people.house import act, caller, house
from tests.wire.web.browsing import PUBLIC, Browser
from tests.wire.web.teams import said, team_of

from keel.refusal import Ask, Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.drivers.github.http import HttpGitHub
from rift.github import actions
from rift.github.model import Connected, Install
from rift.logins import actions as logins
from rift.logins.model import Person, Step
from rift.people import actions as people
from rift.people.actions import operator
from rift.registration import actions as registration
from rift.settings import GitHubSettings, RiftSettings

ADA, GRACE = "ada@example.com", "grace@example.com"


@pytest.fixture
def there(clock: FakeClock) -> StandIn:
    """Made before it serves: it serves within the test, beside the loop."""
    return StandIn(clock=clock.now)


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock, there: StandIn) -> AsyncIterator[Deps]:
    """A Rift that asks the stand-in, and knows no App yet."""
    with there:
        hub = HttpGitHub(there.url, there.api, clock)
        try:
            async with house(database, tmp_path, clock) as made:
                yield replace(made, github=hub, settings=RiftSettings(github=GitHubSettings(url=there.url)))
        finally:
            await hub.close()


def ours(address: str) -> str:
    """The path of ours that somebody is sent back to."""
    assert address.startswith(f"{PUBLIC}/"), address
    return address.removeprefix(PUBLIC)


async def make_the_app(browser: Browser, there: StandIn) -> None:
    """One button here, one there."""
    page = await browser.get("/github/app/new")
    action = html.unescape(re.findall(r'<form class="form" method="post" action="([^"]+)"', page.text)[0])
    manifest = html.unescape(re.findall(r'name="manifest" value="([^"]*)"', page.text)[0])
    state = parse_qs(urlsplit(action).query)["state"][0]
    with there.browser(there.world.owner("ada-l")) as window:
        back = window.make_app(action, manifest, state)
    made = await browser.get(ours(back))
    assert (made.status_code, "Enable Device Flow" in made.text) == (200, True)


async def test_an_app_is_made_an_account_connected_and_a_person_logged_in_over_http(
    deps: Deps, there: StandIn, clock: FakeClock
) -> None:
    ada_there, mallory = there.make_user("ada-l"), there.make_user("mallory")
    acme = there.make_org("acme-inc", admins=[ada_there])
    repo = there.make_repo("acme-inc/app", {"a": "b"}, collaborators={mallory: "read"})
    browser = Browser(deps)
    await browser.sign_in(ADA)
    assert not isinstance(await people.set_admin(deps, operator(deps, "rift user admin", {}), ADA, True), Refusal)
    await make_the_app(browser, there)
    app = await registration.app_of(deps)
    assert app is not None
    ada = await caller(deps, ADA)

    off = await logins.login(deps, act(ada))
    assert isinstance(off, Refusal)
    assert (off.code, off.facts["app"]) == ("github_no_device_flow", app.slug)
    assert [mend.page for mend in off.mends if isinstance(mend, Ask)] == [
        f"tick Enable Device Flow in the settings of the App, {app.html_url}, and save; then call again"
    ]
    assert len(off.mends) == 1, "to call again at once, or to look at the address, mends nothing"
    there.world.apps[app.id].device_flow = True

    team = await team_of(browser)
    to = await actions.connect(deps, act(ada), "Engines")
    assert isinstance(to, Install)
    with there.browser(ada_there) as window:
        back = window.install(to.url, acme.id)
    done = await browser.get(ours(back))
    assert done.headers["location"] == team, done.text
    assert "acme-inc is connected" in said((await browser.get(team)).text)
    on = await actions.enable(deps, act(ada), "Engines", "acme-inc")
    assert isinstance(on, Connected)
    token = await actions.installation_token(deps, on.account.installation)
    assert [one.name for one in (await deps.github.repositories(token, 1)).repositories] == [repo.name]

    person = await logins.person_token(deps, ada.user)
    assert isinstance(person, Person)
    assert person.login == "ada-l"
    clock.advance(timedelta(hours=9))
    newer = await logins.person_token(deps, ada.user)
    assert isinstance(newer, Person)
    assert newer.token != person.token

    # Somebody who reads one repository of it, with an account and a team here, gets nothing by that.
    other = Browser(deps)
    await other.sign_in(GRACE)
    await team_of(other, "Hopper")
    grace = await caller(deps, GRACE)
    step = await logins.login(deps, act(grace))
    assert isinstance(step, Step)
    there.answer_device_login(step.code, mallory)
    clock.advance(timedelta(seconds=step.seconds))
    assert await logins.login(deps, act(grace)) == Step("connected", "mallory")
    assert [one.account.login for one in await deps.github.user_installations(await _token(deps, grace.user))] == [
        "acme-inc"
    ]
    async with deps.db.tx() as tx:
        await tx.run("DELETE FROM github_accounts")
    assert await actions.found(deps, grace, "Hopper") == []
    asked = await actions.connect(deps, act(grace), "Hopper")
    assert isinstance(asked, Install)

    gone = await browser.submit("/app/connections", "/app/connections/github/disconnect")
    assert gone.status_code == 303
    assert "revoked at GitHub" in said((await browser.get("/app/connections")).text)


async def _token(deps: Deps, user: str) -> str:
    person = await logins.person_token(deps, user)
    assert isinstance(person, Person)
    return person.token
