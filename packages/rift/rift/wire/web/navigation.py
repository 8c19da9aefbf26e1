"""The menu: which pages it shows, to whom, in which order. An entry is shown once its page exists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from rift.sessions.model import Session


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the menu. `admin`: shown to the platform admin alone."""

    name: str
    path: str
    group: str = ""
    admin: bool = False


ENTRIES = (
    Entry("Boxes", "/app/boxes", "Work"),
    Entry("Repositories", "/app/repositories", "Work"),
    Entry("Secrets", "/app/secrets", "Work"),
    Entry("Audit", "/app/audit", "Work"),
    Entry("Feedback", "/app/feedback", "Work"),
    Entry("Connections", "/app/connections", "You"),
    Entry("Account", "/app/account", "You"),
    Entry("Organizations", "/app/organizations", "You"),
    Entry("Docs", "/docs", "You"),
    Entry("People", "/app/people", "Platform", admin=True),
    Entry("Waitlist", "/app/waitlist", "Platform", admin=True),
    Entry("Inbox", "/app/inbox", "Platform", admin=True),
    Entry("Mailbox", "/app/mailbox", "Platform", admin=True),
)
"""The menu of who is signed in, in its order; a group's entries stand together."""

OPEN = (Entry("Docs", "/docs"), Entry("Waitlist", "/waitlist"), Entry("Sign in", "/sign-in"))
"""The menu of who is not."""

Current = Literal["", "page", "true"]
"""`aria-current`: this very page, or one that belongs to it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry as a page shows it."""

    name: str
    path: str
    current: Current


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one word."""

    name: str
    entries: Sequence[Shown]


class Menu:
    """The menu over the pages that there are."""

    def __init__(self, paths: Collection[str]) -> None:
        self._entries = [entry for entry in ENTRIES if entry.path in paths]
        self._open = [entry for entry in OPEN if entry.path in paths]

    def of(self, viewer: Session, path: str) -> list[Group]:
        """What somebody sees who is signed in and looks at `path`."""
        groups: dict[str, list[Shown]] = {}
        for entry in self._entries:
            if viewer.admin or not entry.admin:
                groups.setdefault(entry.group, []).append(_shown(entry, path))
        return [Group(name, entries) for name, entries in groups.items()]

    def open(self, path: str) -> list[Shown]:
        """What somebody sees who is not signed in."""
        return [_shown(entry, path) for entry in self._open]


def _shown(entry: Entry, path: str) -> Shown:
    current: Current = "page" if path == entry.path else "true" if path.startswith(f"{entry.path}/") else ""
    return Shown(entry.name, entry.path, current)
