"""The arguments of a verb, read as if whoever wrote them meant ill. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

TITLE_MOST = 256
BODY_MOST = 65_536
"""Characters, as GitHub takes them."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BRANCH = re.compile(r"[^\s\x00-\x20\x7f~^:?*\[\\]{1,250}")


class Wrong(Exception):
    """An argument is none; the text names it."""


def number_of(given: Mapping[str, object]) -> int:
    """The number of an issue or pull request. Raises Wrong."""
    number = given.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**31:
        raise Wrong("the number is one of a pull request or an issue")
    return number


def branch_of(given: Mapping[str, object], name: str) -> str | None:
    """A branch's short name, None where none was given. Raises Wrong."""
    branch = given.get(name)
    if branch is None:
        return None
    if not isinstance(branch, str) or not _BRANCH.fullmatch(branch) or ".." in branch or branch.startswith("-"):
        raise Wrong(f"{name} is the name of a branch")
    return branch


def commit_of(given: Mapping[str, object]) -> str:
    """A commit by its full name. Raises Wrong."""
    commit = given.get("commit")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise Wrong("commit is the full name of a commit")
    return commit


def text_of(given: Mapping[str, object], name: str, most: int, *, needed: bool) -> str:
    """A text of the caller's. Raises Wrong."""
    text = given.get(name) or ""
    if not isinstance(text, str) or "\0" in text:
        raise Wrong(f"{name} is a text")
    if len(text) > most:
        raise Wrong(f"{name} has more than {most} characters")
    if needed and not text.strip():
        raise Wrong(f"{name} is missing")
    return text
