"""What the tests of GitHub's accounts stand in: who there is here and there, and what each of them does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.people.house import act, caller, outcomes, user

from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.deps import Deps
from rift.drivers.github.fake import APP, FakeGitHub
from rift.github import actions
from rift.github.model import Back, Connected, Install, Requested
from rift.invites import actions as invites
from rift.logins import actions as logins
from rift.logins.model import Step
from rift.people import actions as people
from rift.people.model import Caller
from rift.settings import GitHubSettings, RiftSettings

WITH_APP = RiftSettings(
    github=GitHubSettings(
        app_id=APP.id, app_slug=APP.slug, client_id=APP.client_id, client_secret=APP.client_secret,
        private_key=APP.private_key, webhook_secret=APP.webhook_secret,
    )
)  # fmt: skip


@dataclass(frozen=True)
class Hub:
    """A Rift, its people, GitHub."""

    deps: Deps
    ada: Caller
    bob: Caller
    """A member of acme."""
    grace: Caller
    """In no team; admin of one of her own, `hopper`."""

    @property
    def github(self) -> FakeGitHub:
        assert isinstance(self.deps.github, FakeGitHub)
        return self.deps.github

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.deps.clock, FakeClock)
        return self.deps.clock

    async def login(self, who: Caller) -> Step | Refusal:
        return await logins.login(self.deps, act(who, "rift_github_login"))

    async def logged_in(self, who: Caller, name: str) -> None:
        """The whole device flow."""
        step = await self.login(who)
        assert isinstance(step, Step), step
        assert step.status == "begun"
        self.github.answer(step.code, name)
        self.clock.advance(step.seconds)
        done = await self.login(who)
        assert isinstance(done, Step), done
        assert (done.status, done.login) == ("connected", name)

    async def connect(self, who: Caller, org: str) -> Install | Connected | Refusal:
        return await actions.connect(self.deps, act(who, "rift_github_connect"), org)

    async def state(self, who: Caller, org: str) -> str:
        """The state of a connection that somebody begins."""
        to = await self.connect(who, org)
        assert isinstance(to, Install), to
        return parse_qs(urlsplit(to.url).query)["state"][0]

    async def back(
        self, who: Caller, state: str, login: str, installation: int | None, setup: str = "install", code: str = ""
    ) -> Connected | Requested | Refusal:
        """Somebody comes back from GitHub, where they are `login`."""
        came = Back(state, code or self.github.code(login), installation, setup)
        return await actions.came_back(self.deps, act(who, "web connect github"), came)

    async def enable(self, who: Caller, org: str, account: str) -> Connected | Refusal:
        return await actions.enable(self.deps, act(who, "rift_github_enable"), org, account)

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        async with self.deps.db.tx() as tx:
            return await tx.rows(sql)

    async def outcomes(self) -> list[tuple[str | None, str | None, str, str]]:
        return await outcomes(self.deps)

    async def jobs(self) -> list[tuple[str, dict[str, Any]]]:
        found = await self.rows("SELECT task_name, args FROM procrastinate_jobs ORDER BY id")
        return [(row["task_name"], row["args"]) for row in found]


async def hub_of(made: Deps) -> Hub:
    """A hub over a fresh database."""
    deps = replace(made, settings=WITH_APP)
    await user(deps, "ada@example.org", admin=True)
    await user(deps, "bob@example.org")
    await user(deps, "grace@example.org")
    who = [await caller(deps, f"{name}@example.org") for name in ("ada", "bob", "grace")]
    assert not isinstance(await people.new_team(deps, act(who[0]), "acme"), Refusal)
    assert not isinstance(await people.new_team(deps, act(who[2]), "hopper"), Refusal)
    assert not isinstance(await invites.invite(deps, act(who[0]), "acme", "bob@example.org"), Refusal)
    assert not isinstance(await invites.accept(deps, act(who[1]), "acme"), Refusal)
    return Hub(deps, *who)


def code_of(found: object) -> str:
    """The code of a refusal."""
    assert isinstance(found, Refusal), found
    return found.code
