"""What is asked of GitHub, whoever answers. Source: GitHub's REST API, version 2022-11-28.

Nothing here keeps anything: every call brings the App, or the token, as which it is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol


class GitHubError(Exception):
    """GitHub could not be asked, or answered what cannot be taken. `reason` is fit to be shown and holds no secret."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GitHubBusy(GitHubError):
    """Asked too often: nothing may be asked as the same App or person before `until`."""

    def __init__(self, reason: str, until: datetime) -> None:
        super().__init__(reason)
        self.until = until


class GitHubDenied(GitHubError):
    """The token is not good any more, or may not do this (401, 403)."""


class GitHubMissing(GitHubError):
    """There is no such thing, as far as the token may see (404, 410)."""


class GitHubRefused(GitHubError):
    """What was asked cannot be done (409, 422): `reason` is what GitHub says of it, each of its errors."""


class NoDeviceFlow(GitHubRefused):
    """The App's settings at GitHub do not have the device flow enabled."""


@dataclass(frozen=True, slots=True)
class App:
    """A GitHub App. `slug` is its name in addresses."""

    id: int
    slug: str
    html_url: str
    client_id: str
    client_secret: str = field(repr=False)
    private_key: str = field(repr=False)
    webhook_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Account:
    """A user or an organization of GitHub's. The id stays when the login changes."""

    id: int
    login: str
    kind: Literal["User", "Organization"]


@dataclass(frozen=True, slots=True)
class Installation:
    """The App in one account."""

    id: int
    account: Account
    suspended: bool


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as GitHub has it. The id stays when it is renamed or moved."""

    id: int
    owner: str
    name: str
    archived: bool
    default_branch: str | None
    """None where what GitHub calls it is no name that can be shown."""


@dataclass(frozen=True, slots=True)
class InstallationToken:
    """What opens an installation's repositories, for about an hour."""

    value: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class UserTokens:
    """What acts as a person. Without `expires_at` it is good until revoked."""

    access: str = field(repr=False)
    expires_at: datetime | None = None
    refresh: str | None = field(default=None, repr=False)
    refresh_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A login that has begun: the person types `user_code` at `url`; we ask every so many seconds until it expires."""

    device_code: str = field(repr=False)
    user_code: str
    url: str
    every: int
    expires_in: int


@dataclass(frozen=True, slots=True)
class NotYet:
    """The person has not answered; ask again after so many seconds."""

    every: int


@dataclass(frozen=True, slots=True)
class NoLogin:
    """There will be none: the person said no, or took too long."""

    why: Literal["denied", "expired"]


@dataclass(frozen=True, slots=True)
class RepositoryPage:
    """Some of an installation's repositories; `next` is the page that follows, None after the last."""

    repositories: tuple[Repository, ...]
    total: int
    next: int | None


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request."""

    number: int
    title: str
    state: Literal["open", "closed"]
    draft: bool
    merged: bool
    mergeable: bool | None
    """None while GitHub is still finding out."""
    head: str
    """The branch it comes from."""
    head_commit: str
    base: str
    author: str
    body: str
    url: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment of an issue or a pull request, or a review's words with its verdict."""

    author: str
    at: datetime
    body: str
    url: str
    verdict: str = ""
    """Of a review: `approved`, `changes_requested`, `commented`; with a path and a line where it is of one."""
    path: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue, or what a pull request shares with one."""

    number: int
    title: str
    state: str
    author: str
    labels: tuple[str, ...]
    body: str
    url: str
    comments: int
    is_pull: bool


@dataclass(frozen=True, slots=True)
class Check:
    """One check run or status of a commit."""

    name: str
    state: Literal["queued", "running", "passed", "failed", "skipped"]
    told: str
    """The conclusion in GitHub's word, with the check's own summary."""
    url: str


class GitHub(Protocol):
    """Every method raises GitHubError or one of its kinds, and only that; none may be called inside a transaction.

    `full` is `OWNER/NAME`; `token` is an installation's or a person's, as the method says.
    """

    @property
    def kind(self) -> str:
        """`http` or `fake`."""

    # The App itself -----------------------------------------------------------------------------------------------

    async def convert(self, code: str) -> App:
        """The App that was just made from a manifest. Source: POST /app-manifests/{code}/conversions."""

    async def installations(self, app: App) -> tuple[Installation, ...]:
        """Every installation, all pages."""

    async def installation(self, app: App, id: int) -> Installation:
        """One installation. Raises GitHubMissing where there is none (any more)."""

    async def installation_token(self, app: App, id: int, *, fresh: bool = False) -> InstallationToken:
        """A token of an installation that is good for five minutes at least; it may be one that was given before.

        `fresh`: not that. Raises GitHubDenied where it is suspended, GitHubMissing without it.
        """

    async def owns(self, token: str, org: str, login: str) -> bool:
        """Whether a user is an owner of an organization, by the token of the App's installation in it.

        Raises GitHubDenied where the App may not know: it lacks the permission `members`.
        """

    async def repositories(self, token: str, page: int) -> RepositoryPage:
        """A page (from 1, of 100) of what an installation covers, by its token."""

    async def repository(self, token: str, full: str) -> Repository:
        """The repository that has this name now; where none has, it may be told which had it last."""

    # People --------------------------------------------------------------------------------------------------------

    async def device_code(self, app: App) -> DeviceCode:
        """Begin a login."""

    async def device_tokens(self, app: App, device_code: str) -> UserTokens | NotYet | NoLogin:
        """Ask whether the person has answered."""

    async def exchange(self, app: App, code: str) -> UserTokens:
        """A person's tokens for the code with which GitHub sent their browser back."""

    async def refresh(self, app: App, refresh: str) -> UserTokens:
        """New tokens for a refresh token, which is used up. Raises GitHubDenied where it is not good."""

    async def revoke(self, app: App, access: str) -> None:
        """Take the person's whole authorization of the App back. One that is gone is fine."""

    async def user(self, token: str) -> Account:
        """Whose token this is."""

    async def user_installations(self, token: str) -> tuple[Installation, ...]:
        """The installations that the person may reach, all pages."""

    # Done as a person ----------------------------------------------------------------------------------------------

    async def open_pull(
        self, token: str, full: str, *, head: str, base: str, title: str, body: str, draft: bool
    ) -> Pull:
        """Open a pull request."""

    async def pull(self, token: str, full: str, number: int) -> Pull:
        """One pull request."""

    async def pulls_of(self, token: str, full: str, head: str) -> tuple[Pull, ...]:
        """The open pull requests from a branch of the same repository, the newest first."""

    async def reviews(self, token: str, full: str, number: int) -> tuple[Comment, ...]:
        """What reviewers said of a pull request, with the comments on its lines, the oldest first; at most 300."""

    async def comment(self, token: str, full: str, number: int, body: str) -> Comment:
        """Add a comment to an issue or pull request."""

    async def issue(self, token: str, full: str, number: int) -> Issue:
        """One issue or pull request, as an issue."""

    async def comments(self, token: str, full: str, number: int) -> tuple[Comment, ...]:
        """Its comments, the oldest first; at most 300."""

    async def checks(self, token: str, full: str, commit: str) -> tuple[Check, ...]:
        """Check runs and statuses of a commit, the newest of each name."""

    async def job_log(self, token: str, full: str, check: Check) -> str | None:
        """The end of a failed check's log (at most 64 KiB); None where it has none that may be read."""
