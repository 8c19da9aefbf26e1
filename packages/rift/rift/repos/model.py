"""Repositories, their watched refs and heads, and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from keel.secrecy import USERINFO
from rift.people.model import Member, Membership

Heads = Mapping[str, str]
"""Branches by their short name (`main`) with the full hash of their newest commit."""


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository of one organization."""

    id: str
    org: str
    owner: str
    name: str
    url: str
    """A git URL or an absolute path, as the forge takes it; may hold credentials, so it is shown masked."""
    network: str
    """What its boxes may reach: `none`, `proxy` (listed hosts, by the proxy) or `open` (the public internet)."""
    synced_at: datetime | None
    """When its heads were last read."""
    failure: str | None
    """Why they could not be read since, with the whole text."""
    created_at: datetime
    allow: list[str] = field(default_factory=list)
    """Hosts that the proxy connects to beside the usual ones, `*.example.com` for all names below one."""
    forge: Literal["local", "github"] = "local"
    account: int | None = None
    """Of GitHub's: the installation that covers it."""
    login: str | None = None
    """Whose that is at GitHub."""
    enabled: bool = True
    """Whether Rift is on for that account; every other repository is."""
    suspended_at: datetime | None = None
    """Since when that account has the App suspended."""
    removed_at: datetime | None = None
    """Since when it has it no more."""
    github_id: int | None = None
    default_branch: str | None = None
    """As GitHub has it; None where that is not known."""
    archived: bool = False
    uncovered_at: datetime | None = None
    """Since when the App covers it no more; None while it does, and for every other repository."""
    push_default: bool = False
    """Whether boxes may push to its default branch."""
    push_watched: bool = False
    """Whether they may push to a watched ref."""

    @property
    def full(self) -> str:
        """`OWNER/NAME`: what a `repo` argument takes."""
        return f"{self.owner}/{self.name}"

    @property
    def open(self) -> bool:
        """Whether it may be read and watched, boxes be had of it, and a box ask anything of its forge."""
        return self.enabled and not (self.suspended_at or self.removed_at or self.uncovered_at)

    @property
    def origin(self) -> str:
        """Its URL as a box's git has it: a box holds no credentials."""
        return USERINFO.sub("", self.url)


@dataclass(frozen=True, slots=True)
class Watch:
    """A watched ref as its pool stands at this moment."""

    repo: str
    """The repository's id."""
    ref: str
    warm: int
    """How many warm boxes it should have, 0 to 100."""
    head: str | None
    """The commit at its head; None while the repository has no such branch."""
    ready: int
    """How many warm boxes run at that head."""
    failure: str | None
    """Why a box of that head could not be made, with the whole text; a failure of an older head is not told."""
    failure_at: datetime | None
    failure_stays: bool = False
    """Whether it would fail again as it is (what builds an environment), so that nothing is tried by itself."""
    asked_at: datetime | None = None
    """When rift_watch was last called for it."""
    failing_since: datetime | None = None
    """When the first of the failures of that head came which nothing has mended in between."""

    @property
    def why(self) -> str:
        """The first line of its failure, for where the whole of it, which is long of a build's, stands elsewhere."""
        return (self.failure or "").partition("\n")[0].removesuffix(":")


@dataclass(frozen=True, slots=True)
class Network:
    """A change of what a repository's boxes may reach."""

    mode: Literal["none", "proxy", "open"] | None
    """None: as it is."""
    allow: tuple[str, ...]
    deny: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WatchedHead:
    """What a new box starts from."""

    repo: Repo
    ref: str
    commit: str
    warm: int
    org: str
    """What the caller calls its organization."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What rift_watch did."""

    repo: Repo
    ref: str
    head: str
    warm: int
    before: int | None
    """The warm count until now; None when it was not watched."""


@dataclass(frozen=True, slots=True)
class Unwatched:
    """What rift_unwatch did."""

    repo: Repo
    ref: str
    draining: int
    """How many warm boxes go."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of GitHub's that an organization has connected, for a list."""

    installation: int
    login: str
    kind: Literal["User", "Organization"]
    enabled: bool
    """Whether Rift is on for it."""
    suspended_at: datetime | None
    """Since when it has the App suspended."""
    covered_at: datetime | None
    """When its repositories were last listed to the end."""
    failure: str | None
    """Why they could not be since, with the whole text."""
    untaken: list[str]
    """Repositories that the App covers there and that cannot be had here, each with the reason."""
    covered: int
    """How many it has here."""


@dataclass(frozen=True, slots=True)
class RepoView:
    """A repository with its watched refs, for a list."""

    repo: Repo
    org: str
    """What the reader calls its organization: `personal`, a team's name, or to the operator a person's address."""
    shown_url: str
    """Its URL without credentials."""
    watches: tuple[Watch, ...]


@dataclass(frozen=True, slots=True)
class OrgRepos:
    """What rift_repos answers: one organization's accounts and repositories, by name."""

    org: Membership
    repos: tuple[RepoView, ...]
    """Those that are watched, and all that are not GitHub's."""
    accounts: tuple[Account, ...] = ()
    unwatched: tuple[Repo, ...] = ()
    """Those of GitHub's that the App covers and no ref of which is watched."""


@dataclass(frozen=True, slots=True)
class Change:
    """One branch that moved: None before for a new one, None after for one that is gone."""

    ref: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class OrgView:
    """One organization of a person's, with its members and its repositories."""

    org: Membership
    members: tuple[Member, ...]
    repos: tuple[RepoView, ...]
    """Those that are watched, and all that are not GitHub's."""
    accounts: tuple[Account, ...] = ()
    """The accounts of GitHub's that it has connected."""
    unwatched: int = 0
    """How many repositories the App covers beside these: none of their refs is watched."""
