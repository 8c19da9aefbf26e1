"""What there is on the stand-in GitHub: plain records, which the world holds and the wire shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

Right = Literal["none", "read", "write", "admin"]
RIGHTS: tuple[Right, ...] = ("none", "read", "write", "admin")
PERMISSIONS = {
    "contents": "write", "metadata": "read", "pull_requests": "write", "issues": "write", "checks": "read",
    "statuses": "read", "actions": "read", "members": "read",
}  # fmt: skip
"""What an App asks for where nothing else is said."""
EVENTS = ("push", "repository", "pull_request", "check_run", "status", "issue_comment", "organization")


@dataclass(eq=False)
class Owner:
    """A user or an organization. `members` of an organization: the user's id and `admin` or `member`."""

    id: int
    login: str
    kind: Literal["User", "Organization"]
    created_at: datetime
    members: dict[int, Literal["admin", "member"]] = field(default_factory=dict)

    @property
    def email(self) -> str:
        """The address that GitHub gives those who show none."""
        return f"{self.id}+{self.login}@users.noreply.example.org"


@dataclass(eq=False)
class Comment:
    """What somebody wrote below an issue or a pull request."""

    id: int
    author: Owner
    body: str
    at: datetime


@dataclass(eq=False)
class Review:
    """A reviewer's verdict. `state` is `APPROVED`, `CHANGES_REQUESTED`, `COMMENTED`, `DISMISSED` or `PENDING`."""

    id: int
    author: Owner
    body: str
    state: str
    commit: str
    at: datetime


@dataclass(eq=False)
class LineComment:
    """A reviewer's word on a line; without `line` it is of the whole file, or of one that is not there any more."""

    id: int
    review: int
    author: Owner
    body: str
    path: str
    line: int | None
    commit: str
    at: datetime


@dataclass(eq=False)
class Pull:
    """What makes an issue a pull request."""

    id: int
    head: str
    base: str
    draft: bool
    merged_at: datetime | None = None
    merged_by: Owner | None = None
    merge_commit: str | None = None
    looked_at: bool = False
    """GitHub says whether it can be merged only when asked a second time."""
    reviews: list[Review] = field(default_factory=list)
    lines: list[LineComment] = field(default_factory=list)


@dataclass(eq=False)
class Issue:
    id: int
    number: int
    author: Owner
    title: str
    body: str | None
    at: datetime
    labels: tuple[str, ...] = ()
    state: Literal["open", "closed"] = "open"
    closed_at: datetime | None = None
    comments: list[Comment] = field(default_factory=list)
    pull: Pull | None = None


@dataclass(eq=False)
class CheckRun:
    """A check of the Actions: its id is its job's. Without a `conclusion` it is not over."""

    id: int
    name: str
    commit: str
    status: Literal["queued", "in_progress", "completed"]
    conclusion: str | None
    title: str | None
    summary: str | None
    log: str | None
    at: datetime
    ended_at: datetime | None


@dataclass(eq=False)
class Status:
    """The older sort of check. `state` is `error`, `failure`, `pending` or `success`."""

    id: int
    context: str
    commit: str
    state: str
    description: str | None
    target_url: str | None
    at: datetime


@dataclass(eq=False)
class Repo:
    """`folder` is a bare repository, made when it is first used."""

    id: int
    owner: Owner
    name: str
    private: bool
    folder: Path
    created_at: datetime
    default_branch: str = "main"
    archived: bool = False
    pushed_at: datetime | None = None
    collaborators: dict[int, Right] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    checks: list[CheckRun] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)

    @property
    def full(self) -> str:
        return f"{self.owner.login}/{self.name}"


@dataclass(eq=False)
class App:
    """A GitHub App, as its settings page has it. `device_flow` is off until somebody ticks it, as on GitHub."""

    id: int
    slug: str
    name: str
    owner: Owner
    html_url: str
    external_url: str
    created_at: datetime
    client_id: str
    client_secret: str = field(repr=False)
    pem: str = field(repr=False)
    webhook_secret: str = field(repr=False)
    webhook_url: str | None = None
    callback_urls: tuple[str, ...] = ()
    setup_url: str | None = None
    setup_on_update: bool = False
    request_oauth_on_install: bool = False
    device_flow: bool = False
    expiring_tokens: bool = True
    public: bool = False
    permissions: dict[str, str] = field(default_factory=lambda: dict(PERMISSIONS))
    events: tuple[str, ...] = EVENTS


@dataclass(eq=False)
class Installation:
    """An App in an account. `chosen` are repositories' ids where not all are covered."""

    id: int
    app: App
    account: Owner
    created_at: datetime
    permissions: dict[str, str]
    events: tuple[str, ...]
    chosen: set[int] | None = None
    suspended_at: datetime | None = None
    suspended_by: Owner | None = None

    @property
    def selection(self) -> Literal["all", "selected"]:
        return "all" if self.chosen is None else "selected"


@dataclass(eq=False)
class Token:
    """A bearer's: an installation's (`ghs_`) or a user's through an App (`ghu_`, then with what refreshes it)."""

    value: str = field(repr=False)
    app: App
    expires_at: datetime | None
    installation: Installation | None = None
    user: Owner | None = None
    repositories: frozenset[int] | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    refresh: str | None = field(default=None, repr=False)
    refresh_expires_at: datetime | None = None
    by_device: bool = False


@dataclass(eq=False)
class DeviceLogin:
    """A login by the device flow that somebody has begun."""

    device_code: str = field(repr=False)
    user_code: str
    app: App
    expires_at: datetime
    every: int
    asked_at: datetime | None = None
    answer: Owner | Literal["denied"] | None = None


@dataclass(eq=False)
class Code:
    """What a browser was sent back with, good once."""

    value: str = field(repr=False)
    app: App
    user: Owner
    expires_at: datetime
    redirect_uri: str | None
    challenge: str | None = None
