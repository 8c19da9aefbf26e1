"""The pages of the documentation, in their order: what `/docs` shows, `rift_docs` answers and the resources read.

A page is a Markdown file of `docs/`, and its name is the file's without `.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9-]+(?:/[A-Za-z0-9-]+)?")


@dataclass(frozen=True, slots=True)
class DocPage:
    """One page: its file's name, the title in lists, and what it tells, in one line."""

    name: str
    title: str
    tells: str


GROUPS: Mapping[str, tuple[DocPage, ...]] = {
    "Start": (
        DocPage("onboarding", "Your first box", "from an invitation to a first box: sign in, connect a client, ask"),
        DocPage("connect", "Connect a client", "each MCP client by the address alone, and tokens for the others"),
        DocPage("sign-in", "Signing in", "one-time links, passkeys, single sign-on, sessions"),
        DocPage("accounts", "People and organizations", "accounts, teams, roles, invitations, the waitlist"),
    ),
    "Working with agents": (
        DocPage("tasks", "Tasks", "tasks, leases, handles and the two clocks"),
        DocPage("hand-over", "Hand a task to another agent", "release, attach and takeover, step by step"),
        DocPage("inside-a-box", "Inside a box", "what a command finds, what persists, what it may reach"),
        DocPage("github", "GitHub", "the App, connecting accounts, logging in; what it may do, and turning it off"),
        DocPage("limits", "Limits of a box", "memory, processes, disk, CPU: defaults, what holds them, what is said"),
        DocPage("nix-guide", "Nix guide", "the fixed-labs.rift expression: contract, example, from an edit to a box"),
        DocPage("secrets", "Secrets", "what a repository's commands have and nobody is shown: setting, masking"),
        DocPage("send-feedback", "Send feedback", "a draft by your agent, which you read, change and submit"),
    ),
    "Reference": (
        DocPage("tools", "Tools", "every MCP tool: arguments, answers, examples"),
        DocPage("refusals", "Refusals", "every refusal as an agent reads it, with its mends"),
        DocPage("settings", "Settings", "every setting of Rift, its default, its name in the environment"),
        DocPage("audit", "The audit", "what is recorded, reading, checking, proving and erasing it"),
        DocPage("security", "Security", "who may do what; every process, whom it runs as, what it may read"),
    ),
    "Onbe": (
        DocPage("onbe", "Onbe", "whom an agent acts for: concepts, and the first ten minutes"),
        DocPage("onbe-client", "Agents and tool servers", "the client and the guard for programs of your own"),
        DocPage("onbe-admin", "Administering", "registering agents, by files and by the admin API"),
        DocPage("onbe-ends", "How a task ends", "expiry, revocation, kill switches, blocks, introspection"),
        DocPage("onbe-identity", "Your identity provider", "whose people they are, and whether they are active"),
        DocPage("onbe-ledger", "Onbe's ledger", "reading, proving, checking, archiving, handing on"),
        DocPage("onbe-settings", "Onbe's settings", "every setting of Onbe"),
        DocPage("onbe-reasons", "Onbe's reasons", "every reason, what it becomes on the wire, what to do"),
    ),
    "Running it": (
        DocPage("operations", "Operations", "start, backup, upgrade, Postgres, TLS, limits, probes, trouble"),
        DocPage("mail", "Mail", "letters by SMTP, and the mailbox where there is none"),
        DocPage("ARCHITECTURE", "Architecture", "how it is made: the tree, its rooms, one call from end to end"),
    ),
}
"""The pages by group, in the order in which they are read."""


@cache
def folder() -> Path | None:
    """Where the files are: packed beside this package in a wheel, else `docs/` of the checkout; None without either.

    The way there is left as it is: where the checkout lies below a folder that is closed to the server's user, that
    way begins at a descriptor (keel.dropping), and the folder's own path leads nowhere.
    """
    package = Path(__file__).parent.parent.parent
    packed, checkout = package / "documentation", package / ".." / ".." / ".." / "docs"
    return next((one for one in (packed, checkout) if (one / "tasks.md").is_file()), None)


@cache
def text(name: str) -> str | None:
    """The Markdown of a page, also of one in no list (a decision in `adr/`), or None."""
    place = folder()
    if place is None or not NAME.fullmatch(name):
        return None
    try:
        return (place / f"{name}.md").read_text("utf-8")
    except OSError:
        return None


@cache
def groups() -> Mapping[str, tuple[DocPage, ...]]:
    """The pages that are there, by group."""
    there = {group: tuple(page for page in pages if text(page.name) is not None) for group, pages in GROUPS.items()}
    return {group: pages for group, pages in there.items() if pages}


def listed() -> tuple[DocPage, ...]:
    """The pages that are there, in their order."""
    return tuple(page for pages in groups().values() for page in pages)


def plain(markdown: str) -> str:
    """A page without the marks that say which parts are made from the code."""
    return re.sub(r"^<!--[^\n]*-->\n+", "", markdown, flags=re.MULTILINE)


def part(markdown: str, heading: str) -> str:
    """What stands below a heading of the second level, with it. Raises ValueError where there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", markdown, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"there is no heading {heading!r}")
    return found[0]
