"""Each test of the suite runs once with each GitHub; a kit is what people do there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

import pytest
from tests.github.standin import StandIn

from keel.testing import FakeClock
from rift.drivers.github.fake import FakeGitHub, Project
from rift.drivers.github.http import HttpGitHub
from rift.drivers.github.protocol import App, Check, Comment, GitHub, Issue, UserTokens


class Kit(Protocol):
    """A GitHub, its App, and what is done at its pages. Repositories are named `OWNER/NAME`."""

    github: GitHub
    clock: FakeClock

    @property
    def app(self) -> App: ...

    def org(self, login: str, owners: list[str], members: list[str] | None = None) -> None: ...
    def user(self, login: str) -> None: ...
    def install(self, login: str) -> int: ...
    def suspend(self, id: int) -> None: ...
    def uninstall(self, id: int) -> None: ...
    def repository(self, id: int, full: str) -> None: ...
    def many(self, id: int, owner: str, count: int) -> None: ...
    def answer(self, code: str, login: str | None) -> None: ...
    def code(self, login: str) -> str: ...
    def person(self, login: str) -> UserTokens: ...
    def made(self, code: str) -> str: ...
    def branch(self, full: str, name: str) -> str: ...
    def issue(self, full: str, title: str, by: str, labels: tuple[str, ...]) -> int: ...
    def review(self, full: str, number: int, by: str, verdict: str, body: str, line: tuple[str, int, str]) -> None: ...
    def check(self, full: str, commit: str, name: str, conclusion: str | None, log: str | None) -> None: ...
    def status(self, full: str, commit: str, name: str, state: str) -> None: ...
    def limit(self, id: int) -> None: ...
    def break_down(self) -> None: ...
    def later(self, by: timedelta) -> None: ...


class FakeKit:
    """The one in memory."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._fake = FakeGitHub(clock)
        self.github: GitHub = self._fake

    @property
    def app(self) -> App:
        return self._fake.app

    def org(self, login: str, owners: list[str], members: list[str] | None = None) -> None:
        self._fake.account(login, "Organization")
        self._fake.owners[login] = set(owners)
        for one in (*owners, *(members or [])):
            self._fake.account(one)
            self._fake.members.setdefault(one, set()).add(login)

    def user(self, login: str) -> None:
        self._fake.account(login)

    def install(self, login: str) -> int:
        return self._fake.install(login, self._fake.account(login).kind).id

    def suspend(self, id: int) -> None:
        self._fake.suspend(id)

    def uninstall(self, id: int) -> None:
        self._fake.uninstall(id)

    def repository(self, id: int, full: str) -> None:
        self._fake.cover(id, full.partition("/")[2])

    def many(self, id: int, owner: str, count: int) -> None:
        for number in range(count):
            self._fake.cover(id, f"repo-{number:05}")

    def answer(self, code: str, login: str | None) -> None:
        self._fake.answer(code, login or "denied")

    def code(self, login: str) -> str:
        return self._fake.code(login)

    def person(self, login: str) -> UserTokens:
        return self._fake.person(login)

    def made(self, code: str) -> str:
        self._fake.manifests[code] = replace(self._fake.app, id=77, slug="another")
        return code

    def branch(self, full: str, name: str) -> str:
        commit = f"{len(self._project(full).branches) + 10:040x}"
        self._project(full).branches[name] = commit
        return commit

    def issue(self, full: str, title: str, by: str, labels: tuple[str, ...]) -> int:
        issues = self._project(full).issues
        number = len(issues) + 1
        issues[number] = Issue(
            number, title, "open", by, labels, "what", f"https://github.com/{full}/issues/{number}", 0, False
        )
        return number

    def review(self, full: str, number: int, by: str, verdict: str, body: str, line: tuple[str, int, str]) -> None:
        now, url = self.clock.now(), f"https://github.com/{full}/pull/{number}#r"
        said = [
            Comment(by, now, body, url, verdict.lower()),
            Comment(by, now, line[2], url, "commented", line[0], line[1]),
        ]
        self._project(full).reviews.setdefault(number, []).extend(said)

    def check(self, full: str, commit: str, name: str, conclusion: str | None, log: str | None) -> None:
        state: Any = {"success": "passed", "failure": "failed", "skipped": "skipped", None: "running"}[conclusion]
        url = f"https://github.com/{full}/actions/runs/1/job/{name}"
        self._project(full).checks.setdefault(commit, []).append(Check(name, state, conclusion or "in_progress", url))
        if log is not None:
            self._project(full).logs[url] = log

    def status(self, full: str, commit: str, name: str, state: str) -> None:
        told: Any = {"success": "passed", "failure": "failed", "pending": "running"}[state]
        self._project(full).checks.setdefault(commit, []).append(Check(name, told, state, ""))

    def limit(self, id: int) -> None:
        self._fake.busy_until = self.clock.now() + timedelta(minutes=30)

    def break_down(self) -> None:
        self._fake.down = True

    def later(self, by: timedelta) -> None:
        self.clock.advance(by)

    def _project(self, full: str) -> Project:
        return self._fake.projects[full]


class StandInKit:
    """The one that is asked over HTTP, at a stand-in with GitHub's own answers."""

    def __init__(self, clock: FakeClock, standin: StandIn) -> None:
        self.clock, self.standin = clock, standin
        self._owner = standin.make_user("rifter")
        self._app = standin.make_app(self._owner)
        standin.device_every = 5
        self._known = App(
            self._app.id, self._app.slug, self._app.html_url, self._app.client_id, self._app.client_secret,
            self._app.pem, self._app.webhook_secret,
        )  # fmt: skip
        self.http = HttpGitHub(standin.url, standin.api, clock)
        self.github: GitHub = self.http

    @property
    def app(self) -> App:
        return self._known

    def org(self, login: str, owners: list[str], members: list[str] | None = None) -> None:
        for one in (*owners, *(members or [])):
            self.user(one)
        self.standin.make_org(
            login, admins=[self._there(one) for one in owners], members=[self._there(one) for one in members or []]
        )

    def user(self, login: str) -> None:
        if not any(one.login == login for one in self.standin.world.owners.values()):
            self.standin.make_user(login)

    def install(self, login: str) -> int:
        return self.standin.install(self._app, self._there(login)).id

    def suspend(self, id: int) -> None:
        self.standin.suspend(self.standin.world.installations[id])

    def uninstall(self, id: int) -> None:
        self.standin.uninstall(self.standin.world.installations[id])

    def repository(self, id: int, full: str) -> None:
        self.standin.make_repo(full)

    def many(self, id: int, owner: str, count: int) -> None:
        self.standin.make_repos(self._there(owner), count)

    def answer(self, code: str, login: str | None) -> None:
        self.standin.answer_device_login(code, self._there(login) if login else None)

    def code(self, login: str) -> str:
        self._app.callback_urls = ("http://127.0.0.1:9/back",)
        with self.standin.browser(self._there(login)) as browser:
            back = browser.authorize(f"/login/oauth/authorize?client_id={self._app.client_id}&state=x")
        return back.partition("code=")[2].partition("&")[0]

    def person(self, login: str) -> UserTokens:
        made = self.standin.user_token(self._app, self._there(login))
        return UserTokens(made.value, made.expires_at, made.refresh, made.refresh_expires_at)

    def made(self, code: str) -> str:
        asked = (
            '{"name": "another", "url": "https://r.example", "redirect_url": "http://127.0.0.1:9/made", "public": true}'
        )
        with self.standin.browser(self._owner) as browser:
            back = browser.make_app("/settings/apps/new?state=x", asked, "x")
        return back.partition("code=")[2].partition("&")[0]

    def branch(self, full: str, name: str) -> str:
        repo = self.standin.world.repo(full)
        return self.standin.push_from_outside(repo, name, onto=self.standin.head(repo))

    def issue(self, full: str, title: str, by: str, labels: tuple[str, ...]) -> int:
        repo = self.standin.world.repo(full)
        return self.standin.make_issue(repo, title, "what", self._there(by), labels).number

    def review(self, full: str, number: int, by: str, verdict: str, body: str, line: tuple[str, int, str]) -> None:
        repo = self.standin.world.repo(full)
        self.standin.review(repo, repo.issues[number], self._there(by), verdict, body, [line])

    def check(self, full: str, commit: str, name: str, conclusion: str | None, log: str | None) -> None:
        self.standin.set_check(self.standin.world.repo(full), commit, name, conclusion, log=log)

    def status(self, full: str, commit: str, name: str, state: str) -> None:
        self.standin.set_status(self.standin.world.repo(full), commit, name, state)

    def limit(self, id: int) -> None:
        self.standin.limit_rate(self.standin.world.installations[id], resets_in=timedelta(minutes=30))

    def break_down(self) -> None:
        self.standin.break_down("", 502)

    def later(self, by: timedelta) -> None:
        self.clock.advance(by)

    def _there(self, login: str):  # type: ignore[no-untyped-def] # the stand-in's own
        return self.standin.world.owner(login)


@pytest.fixture(params=["fake", "http"])
async def kit(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Kit]:
    """A GitHub with an App, and nobody in it yet."""
    if request.param == "fake":
        yield FakeKit(clock)
        return
    with StandIn(clock=clock.now) as standin:
        made = StandInKit(clock, standin)
        try:
            yield made
        finally:
            await made.http.close()
