"""What the verbs about pull requests, issues and checks are asked with, and what they found."""

from __future__ import annotations

from dataclasses import dataclass

from rift.drivers.github.protocol import Check, Comment, Issue, Pull


@dataclass(frozen=True, slots=True)
class Opened:
    """A pull request that was opened just now, or was there already from the same branch."""

    pull: Pull
    before: bool


@dataclass(frozen=True, slots=True)
class Status:
    """A pull request, with what stands in its way and what people said of it."""

    pull: Pull
    checks: tuple[Check, ...]
    reviews: tuple[Comment, ...]
    comments: tuple[Comment, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """An issue, or what a pull request shares with one, with its comments."""

    issue: Issue
    comments: tuple[Comment, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """The checks of a commit, and of those that failed the end of the log, where there is one."""

    commit: str
    checks: tuple[Check, ...]
    logs: tuple[tuple[Check, str | None], ...]


@dataclass(frozen=True, slots=True)
class Said:
    """A comment that was made."""

    number: int
    comment: Comment


Found = Opened | Status | Read | Checked | Said
