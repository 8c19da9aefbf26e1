"""A repository's secrets: what may be seen of them, and what only their boxes get. Source: design, Secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from rift.people.model import Membership
from rift.repos.model import Repo

NAME_MOST = 128
VALUE_MOST = 65_536
"""The longest value, in bytes of UTF-8; an environment variable holds twice as much."""
SECRETS_MOST = 100
"""How many secrets a repository may have."""
TOGETHER_MOST = 262_144
"""How many bytes their values may have together: a command's environment holds them beside everything else."""
MASKED_FROM = 6
"""A value of fewer bytes is not masked in output: what it says stands in too many other words."""
MASK = "***"
"""What stands in output in a value's place."""


def about(repo: str, name: str) -> str:
    """What a sealed value is about."""
    return f"secret {repo} {name}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as its organization's members see it: never its value."""

    name: str
    bytes: int
    """Of its value."""
    set_by: str | None
    """The email address of who set it; None where that was whoever runs the server."""
    set_at: datetime
    shut: bool = False
    """Whether the key that sealed it is not here: its boxes do not get it until it is set again."""


@dataclass(frozen=True, slots=True)
class RepoSecrets:
    """One repository with its secrets, to one of its organization's members."""

    repo: Repo
    place: Membership
    """The reader's place in its organization: admins change, members read."""
    secrets: tuple[Secret, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """How many secrets a repository has, for a list."""

    repo: Repo
    place: Membership
    count: int


@dataclass(frozen=True, slots=True)
class Changed:
    """What setting a secret did."""

    repo: Repo
    secret: Secret
    fresh: bool
    """Whether there was none of this name."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What removing a secret did."""

    repo: Repo
    name: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """A value as it is stored."""

    name: str
    sealed: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a box's agent gets: every value of its repository, as of one version."""

    version: int
    values: Mapping[str, str] = field(repr=False)
