"""A GitHub in memory: a test says who there is, where the App is, and what people do at GitHub's pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Literal, TypeVar

from keel.clock import Clock
from keel.db import forbid_in_transaction
from rift.drivers.github.keeping import KeptTokens
from rift.drivers.github.protocol import (
    Account,
    App,
    Check,
    Comment,
    DeviceCode,
    GitHubBusy,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    GitHubRefused,
    Installation,
    InstallationToken,
    Issue,
    NoLogin,
    NotYet,
    Pull,
    Repository,
    RepositoryPage,
    UserTokens,
)

Key = TypeVar("Key")
Thing = TypeVar("Thing")

PER_PAGE = 100
TOKEN_FOR = timedelta(hours=1)
ACCESS_FOR = timedelta(hours=8)
REFRESH_FOR = timedelta(days=184)
CODE_FOR = timedelta(minutes=15)
EVERY = 5
KEY = "-----BEGIN RSA PRIVATE KEY-----\nZmFrZQ==\n-----END RSA PRIVATE KEY-----\n"
"""Looks like one, and signs nothing."""
APP = App(
    1, "rift-test", "https://github.com/apps/rift-test", "Iv1.0123456789abcdef", "fake-client-secret", KEY,
    "fake-webhook-secret",
)  # fmt: skip


@dataclass
class Login:
    """A device code that was given out."""

    user_code: str
    expires_at: datetime
    ask_after: datetime
    every: int = EVERY
    answer: str | Literal["denied"] | None = None
    """The login of who typed the code."""
    used: bool = False


@dataclass
class Grant:
    """The tokens of one authorization."""

    login: str
    expires_at: datetime
    refresh: str
    good: bool = True


@dataclass
class Project:
    """What happened in one repository."""

    branches: dict[str, str] = field(default_factory=dict)
    pulls: dict[int, Pull] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    comments: dict[int, list[Comment]] = field(default_factory=dict)
    reviews: dict[int, list[Comment]] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    """By a check's address."""
    archived: bool = False
    """Whether it takes nothing new."""


class FakeGitHub:
    """Its members are what a test changes; `app` is the one App that it knows."""

    def __init__(self, clock: Clock, url: str = "https://github.com") -> None:
        self.clock, self.url, self.app = clock, url, APP
        self.accounts: dict[str, Account] = {}
        self.installs: dict[int, Installation] = {}
        self.covered: dict[int, list[Repository]] = {}
        """By installation."""
        self.members: dict[str, set[str]] = {}
        """Organizations by who may reach the App in them."""
        self.owners: dict[str, set[str]] = {}
        """Owners by organization; they are members too."""
        self.projects: dict[str, Project] = {}
        """By OWNER/NAME."""
        self.manifests: dict[str, App] = {}
        """Apps that were just made, by the code that tells of them once."""
        self.down = False
        self.busy_until: datetime | None = None
        self.asked: list[str] = []
        """The methods that were called, in order."""
        self.logins: dict[str, Login] = {}
        self.grants: dict[str, Grant] = {}
        """By access token."""
        self.codes: dict[str, str] = {}
        """Logins by the code that their browser was sent back with."""
        self.tokens: dict[str, tuple[int, datetime]] = {}
        """Installations by token."""
        self._kept = KeptTokens(clock)
        self._numbers = count(1001)

    # What a test does ----------------------------------------------------------------------------------------------

    def account(self, login: str, kind: Literal["User", "Organization"] = "User") -> Account:
        """Somebody of this login, made where there is nobody."""
        return self.accounts.setdefault(login, Account(next(self._numbers), login, kind))

    def install(self, login: str, kind: Literal["User", "Organization"] = "User", *by: str) -> Installation:
        """The App in an account; `by` are its owners, if it is an organization."""
        made = Installation(next(self._numbers), self.account(login, kind), False)
        self.installs[made.id] = made
        self.covered.setdefault(made.id, [])
        for one in by:
            self.members.setdefault(self.account(one).login, set()).add(login)
            self.owners.setdefault(login, set()).add(one)
        return made

    def suspend(self, id: int, suspended: bool = True) -> None:
        """Suspend an installation, or let it go on."""
        self.installs[id] = replace(self.installs[id], suspended=suspended)

    def uninstall(self, id: int) -> None:
        """Take the App out of an account."""
        del self.installs[id]

    def rename(self, old: str, new: str) -> None:
        """Give an account another login."""
        account = self.accounts[new] = replace(self.accounts.pop(old), login=new)
        for id, one in self.installs.items():
            if one.account.id == account.id:
                self.installs[id] = replace(one, account=account)

    def cover(self, id: int, name: str, *, branch: str = "main") -> Repository:
        """A repository of an installation's account, covered by it."""
        owner = self.installs[id].account.login
        made = Repository(next(self._numbers), owner, name, False, branch)
        self.covered[id].append(made)
        self.projects.setdefault(f"{owner}/{name}", Project())
        return made

    def answer(self, user_code: str, login: str | Literal["denied"]) -> None:
        """Somebody types a code and says yes; `denied`: they say no."""
        found = next(one for one in self.logins.values() if one.user_code == user_code)
        found.answer = login if login == "denied" else self.account(login).login

    def code(self, login: str) -> str:
        """Somebody authorizes the App: the code that their browser comes back with."""
        made = f"code{next(self._numbers)}"
        self.codes[made] = self.account(login).login
        return made

    def person(self, login: str) -> UserTokens:
        """Tokens of somebody, as a login gives them."""
        return self._grant(self.account(login).login)

    # The App itself -----------------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Nothing leaves this process."""
        return "fake"

    async def convert(self, code: str) -> App:
        self._ask("convert")
        if code not in self.manifests:
            raise GitHubMissing("GitHub has no such thing")
        self.app = self.manifests.pop(code)
        return self.app

    async def installations(self, app: App) -> tuple[Installation, ...]:
        self._ask("installations", app)
        return tuple(self.installs.values())

    async def installation(self, app: App, id: int) -> Installation:
        self._ask("installation", app)
        return self._installed(id)

    async def installation_token(self, app: App, id: int, *, fresh: bool = False) -> InstallationToken:
        kept = None if fresh else self._kept.get(app.id, id)
        if kept is not None:
            forbid_in_transaction("GitHub")
            return kept
        self._ask("installation_token", app)
        if self._installed(id).suspended:
            raise GitHubDenied("GitHub does not allow it: this installation has been suspended")
        made = InstallationToken(f"ghs_{next(self._numbers)}", self.clock.now() + TOKEN_FOR)
        self.tokens[made.value] = (id, made.expires_at)
        return self._kept.keep(app.id, id, made)

    async def owns(self, token: str, org: str, login: str) -> bool:
        self._ask("owns")
        id = self._installed_by(token)
        if self.installs[id].account.login != org:
            return False
        return login in self.owners.get(org, ())

    async def repositories(self, token: str, page: int) -> RepositoryPage:
        self._ask("repositories")
        covered = self.covered[self._installed_by(token)]
        shown = covered[(page - 1) * PER_PAGE : page * PER_PAGE]
        return RepositoryPage(tuple(shown), len(covered), page + 1 if len(covered) > page * PER_PAGE else None)

    async def repository(self, token: str, full: str) -> Repository:
        self._ask("repository")
        covered = self.covered[self._installed_by(token)]
        return self._there({f"{one.owner}/{one.name}": one for one in covered}, full)

    # People --------------------------------------------------------------------------------------------------------

    async def device_code(self, app: App) -> DeviceCode:
        self._ask("device_code")
        number, now = next(self._numbers), self.clock.now()
        made = DeviceCode(
            f"device{number}", f"CODE-{number}", f"{self.url}/login/device", EVERY, int(CODE_FOR.total_seconds())
        )
        self.logins[made.device_code] = Login(made.user_code, now + CODE_FOR, now)
        return made

    async def device_tokens(self, app: App, device_code: str) -> UserTokens | NotYet | NoLogin:
        self._ask("device_tokens")
        login, now = self.logins.get(device_code), self.clock.now()
        if login is None or login.used or login.expires_at <= now:
            return NoLogin("expired")
        early = now < login.ask_after
        if early:
            login.every += 5
        login.ask_after = now + timedelta(seconds=login.every)
        if early or login.answer is None:
            return NotYet(login.every if early else 0)
        login.used = True
        return NoLogin("denied") if login.answer == "denied" else self._grant(login.answer)

    async def exchange(self, app: App, code: str) -> UserTokens:
        self._ask("exchange", app)
        if code not in self.codes:
            raise GitHubDenied("GitHub does not take it: the code is incorrect or expired")
        return self._grant(self.codes.pop(code))

    async def refresh(self, app: App, refresh: str) -> UserTokens:
        self._ask("refresh", app)
        for one in self.grants.values():
            if one.refresh == refresh and one.good:
                one.good = False
                return self._grant(one.login)
        raise GitHubDenied("GitHub does not take it: the refresh token is incorrect or expired")

    async def revoke(self, app: App, access: str) -> None:
        self._ask("revoke", app)
        if access in self.grants:
            for one in self.grants.values():
                if one.login == self.grants[access].login:
                    one.good = False

    async def user(self, token: str) -> Account:
        self._ask("user")
        return self.accounts[self._login(token)]

    async def user_installations(self, token: str) -> tuple[Installation, ...]:
        self._ask("user_installations")
        login = self._login(token)
        reach = {login, *self.members.get(login, ())}
        return tuple(one for one in self.installs.values() if one.account.login in reach)

    # Done as a person ----------------------------------------------------------------------------------------------

    async def open_pull(
        self, token: str, full: str, *, head: str, base: str, title: str, body: str, draft: bool
    ) -> Pull:
        self._ask("open_pull")
        login, project = self._login(token), self._open_project(full)
        if head not in project.branches:
            raise GitHubRefused("Validation Failed; PullRequest head invalid")
        if any(one.head == head and one.state == "open" for one in project.pulls.values()):
            raise GitHubRefused(f"Validation Failed; A pull request already exists for {head}.")
        number = len(project.issues) + 1
        url = f"{self.url}/{full}/pull/{number}"
        made = Pull(number, title, "open", draft, False, None, head, project.branches[head], base, login, body, url)
        project.pulls[number] = made
        project.issues[number] = Issue(number, title, "open", login, (), body, url, 0, True)
        return made

    async def pull(self, token: str, full: str, number: int) -> Pull:
        self._ask("pull")
        self._login(token)
        return self._there(self._project(full).pulls, number)

    async def pulls_of(self, token: str, full: str, head: str) -> tuple[Pull, ...]:
        self._ask("pulls_of")
        self._login(token)
        found = [one for one in self._project(full).pulls.values() if one.head == head and one.state == "open"]
        return tuple(reversed(found))

    async def reviews(self, token: str, full: str, number: int) -> tuple[Comment, ...]:
        self._ask("reviews")
        self._login(token)
        project = self._project(full)
        self._there(project.pulls, number)
        return tuple(project.reviews.get(number, ()))[-300:]

    async def comment(self, token: str, full: str, number: int, body: str) -> Comment:
        self._ask("comment")
        login, project = self._login(token), self._open_project(full)
        issue = self._there(project.issues, number)
        url = f"{issue.url}#issuecomment-{next(self._numbers)}"
        made = Comment(login, self.clock.now().replace(microsecond=0), body, url)
        project.comments.setdefault(number, []).append(made)
        project.issues[number] = replace(issue, comments=issue.comments + 1)
        return made

    async def issue(self, token: str, full: str, number: int) -> Issue:
        self._ask("issue")
        self._login(token)
        return self._there(self._project(full).issues, number)

    async def comments(self, token: str, full: str, number: int) -> tuple[Comment, ...]:
        self._ask("comments")
        self._login(token)
        project = self._project(full)
        self._there(project.issues, number)
        return tuple(project.comments.get(number, ()))[-300:]

    async def checks(self, token: str, full: str, commit: str) -> tuple[Check, ...]:
        self._ask("checks")
        self._login(token)
        newest = {one.name: one for one in self._project(full).checks.get(commit, ())}
        return tuple(newest[name] for name in sorted(newest))

    async def job_log(self, token: str, full: str, check: Check) -> str | None:
        self._ask("job_log")
        self._login(token)
        return self._project(full).logs.get(check.url)

    # How it judges -------------------------------------------------------------------------------------------------

    def _ask(self, what: str, app: App | None = None) -> None:
        forbid_in_transaction("GitHub")
        self.asked.append(what)
        if self.down:
            raise GitHubError("GitHub cannot be reached (ConnectError)")
        if self.busy_until is not None and self.clock.now() < self.busy_until:
            raise GitHubBusy("GitHub was asked too often", self.busy_until)
        if app is not None and (app.id, app.client_secret) != (self.app.id, self.app.client_secret):
            raise GitHubDenied("GitHub does not allow it: bad credentials")

    def _installed(self, id: int) -> Installation:
        return self._there(self.installs, id)

    def _installed_by(self, token: str) -> int:
        id, until = self.tokens.get(token, (0, self.clock.now()))
        if until <= self.clock.now() or id not in self.installs or self.installs[id].suspended:
            raise GitHubDenied("GitHub does not allow it: bad credentials")
        return id

    def _there(self, found: Mapping[Key, Thing], id: Key) -> Thing:
        if id not in found:
            raise GitHubMissing("GitHub has no such thing, or does not show it (status 404): Not Found")
        return found[id]

    def _project(self, full: str) -> Project:
        return self._there(self.projects, full)

    def _open_project(self, full: str) -> Project:
        project = self._project(full)
        if project.archived:
            raise GitHubDenied("GitHub does not allow it (status 403): Repository was archived so is read-only.")
        return project

    def _login(self, token: str) -> str:
        grant = self.grants.get(token)
        if grant is None or not grant.good or grant.expires_at <= self.clock.now():
            raise GitHubDenied("GitHub does not allow it (status 401): Bad credentials")
        return grant.login

    def _grant(self, login: str) -> UserTokens:
        number, now = next(self._numbers), self.clock.now()
        made = UserTokens(f"ghu_{number}", now + ACCESS_FOR, f"ghr_{number}", now + REFRESH_FOR)
        self.grants[made.access] = Grant(login, now + ACCESS_FOR, f"ghr_{number}")
        return made
