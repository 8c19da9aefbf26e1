"""Accounts of GitHub's that are connected to organizations of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

State = Literal["enabled", "disabled", "suspended", "removed"]


@dataclass(frozen=True, slots=True)
class GitHubAccount:
    """The App in an account of GitHub's, for one organization of ours."""

    installation: int
    org: str
    """Our organization's id."""
    login: str
    kind: Literal["User", "Organization"]
    enabled: bool
    """Whether an admin has turned Rift on for it."""
    suspended_at: datetime | None
    """Since when the App is suspended there."""
    removed_at: datetime | None
    """Since when the App is not in it any more."""
    connected_at: datetime
    failure: str | None
    """Why they could not be listed."""

    @property
    def state(self) -> State:
        """What is so now; the worst first."""
        if self.removed_at is not None:
            return "removed"
        if self.suspended_at is not None:
            return "suspended"
        return "enabled" if self.enabled else "disabled"


@dataclass(frozen=True, slots=True)
class Install:
    """Where a person installs the App; `others` are accounts that have it, and could be connected on the page."""

    org: str
    """What the caller calls the organization."""
    url: str
    others: tuple[str, ...] = ()
    page: str = ""


@dataclass(frozen=True, slots=True)
class Connected:
    """An account that is connected; `new`: by this call."""

    org: str
    account: GitHubAccount
    new: bool


@dataclass(frozen=True, slots=True)
class Requested:
    """Somebody asked an owner at GitHub to install the App: nothing is connected yet."""

    org: str
    """Our organization's id."""


@dataclass(frozen=True, slots=True)
class Found:
    """An installation that a person could connect."""

    installation: int
    login: str


@dataclass(frozen=True, slots=True)
class Back:
    """What a browser comes back from GitHub with: none of it is believed yet."""

    state: str = field(repr=False)
    code: str = field(repr=False)
    installation: int | None
    setup: str
