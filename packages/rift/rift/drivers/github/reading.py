"""What GitHub's answers say, read strictly: a member that is not as its document has it is no answer. Pure.

Logins and names go into addresses, paths and pages, so what GitHub itself would not take for one is not taken here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeGuard
from urllib.parse import urlsplit

from rift.drivers.github.protocol import (
    Account,
    App,
    Check,
    Comment,
    DeviceCode,
    GitHubError,
    Installation,
    InstallationToken,
    Issue,
    Pull,
    Repository,
    UserTokens,
)

LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9_])?", re.ASCII)
"""Users and organizations; managed users have `_` and their company's short name behind."""
NAME = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
WORD = re.compile(r"[\x21-\x7e]{1,4096}", re.ASCII)
"""Tokens, codes, ids: what goes into a header."""
ADDRESS_MOST = 2000
TEXT_MOST = 262_144
"""A body is at most 65,536 characters at GitHub."""
REASON_MOST = 300
PAST_LIFE = 400 * 86400
"""No token is good for longer than that many seconds."""
GHOST = "ghost"
"""Whose account is gone, as GitHub calls them."""


class Unreadable(GitHubError):
    """What it answered is not what its document says."""


def plain(text: object, most: int = REASON_MOST) -> str:
    """A text of GitHub's on one line of printable characters, cut to `most`: fit for a sentence of ours."""
    line = " ".join(str(text).split()) if isinstance(text, str) else ""
    kept = "".join(c for c in line if unicodedata.category(c)[0] != "C")
    return kept if len(kept) <= most else kept[: most - 1] + "…"


def account(said: object) -> Account:
    """A user or an organization."""
    found = _object(said, "an account")
    kind = found.get("type")
    if kind not in ("User", "Organization"):
        raise Unreadable("GitHub answered with an account of a kind that is not known")
    return Account(number(found, "id"), login(found), "Organization" if kind == "Organization" else "User")


def login(said: Mapping[str, Any]) -> str:
    """A login that an account may have."""
    found = said.get("login")
    if not isinstance(found, str) or not LOGIN.fullmatch(found):
        raise Unreadable("GitHub answered with a login that none can have")
    return found


def installation(said: object) -> Installation:
    """The App in one account."""
    found = _object(said, "an installation")
    return Installation(number(found, "id"), account(found.get("account")), found.get("suspended_at") is not None)


def installations(said: Sequence[object]) -> list[Installation]:
    """Those in users and organizations: an enterprise, which has no login, has no repositories of its own."""
    return [
        installation(one)
        for one in said
        if not (isinstance(one, Mapping) and isinstance(one.get("account"), Mapping) and "login" not in one["account"])
    ]


def repository(said: object) -> Repository:
    """A repository. Where it is cloned from follows from its name, whatever address is said beside it."""
    found = _object(said, "a repository")
    owner, name = login(_object(found.get("owner"), "an owner")), found.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in (".", ".."):
        raise Unreadable("GitHub answered with a repository's name that none can have")
    branch = found.get("default_branch")
    shown = isinstance(branch, str) and 0 < len(branch) <= 255 and branch.isprintable()
    return Repository(number(found, "id"), owner, name, _yes(found, "archived"), branch if shown else None)


def app(said: object) -> App:
    """The App as it was just made."""
    found = _object(said, "an App")
    hook = found.get("webhook_secret")
    return App(
        number(found, "id"), word(found, "slug"), address(found, "html_url"), word(found, "client_id"),
        word(found, "client_secret"), text(found, "pem", 16_384), word(found, "webhook_secret") if hook else "",
    )  # fmt: skip


def installation_token(said: object) -> InstallationToken:
    """What opens an installation's repositories."""
    found = _object(said, "a token")
    return InstallationToken(word(found, "token"), instant(found, "expires_at"))


def user_tokens(said: Mapping[str, Any], now: datetime) -> UserTokens:
    """What acts as a person; those of an App whose tokens do not expire say nothing of it."""
    refresh = word(said, "refresh_token") if said.get("refresh_token") not in (None, "") else None
    return UserTokens(
        word(said, "access_token"), _ahead(said, "expires_in", now), refresh,
        _ahead(said, "refresh_token_expires_in", now) if refresh else None,
    )  # fmt: skip


def device_code(said: Mapping[str, Any]) -> DeviceCode:
    """A login that has begun."""
    code = said.get("user_code")
    if not isinstance(code, str) or not re.fullmatch(r"[A-Za-z0-9-]{4,32}", code, re.ASCII):
        raise Unreadable("GitHub answered with a code that nobody can type")
    every, expires = number(said, "interval"), number(said, "expires_in")
    return DeviceCode(
        word(said, "device_code"), code, address(said, "verification_uri"), min(every, 300), min(expires, 3600)
    )


def pull(said: object) -> Pull:
    """A pull request, alone or in a list."""
    found = _object(said, "a pull request")
    head, base = _object(found.get("head"), "a head"), _object(found.get("base"), "a base")
    mergeable = found.get("mergeable")
    return Pull(
        number=number(found, "number"),
        title=text(found, "title", 4096),
        state="open" if found.get("state") == "open" else _closed(found),
        draft=found.get("draft") is True,
        merged=found.get("merged") is True or found.get("merged_at") is not None,
        mergeable=mergeable if isinstance(mergeable, bool) else None,
        head=text(head, "ref", 1024),
        head_commit=word(head, "sha"),
        base=text(base, "ref", 1024),
        author=author(found),
        body=body(found),
        url=address(found, "html_url"),
    )


def comment(said: object) -> Comment:
    """A comment of an issue or pull request."""
    found = _object(said, "a comment")
    return Comment(author(found), instant(found, "created_at"), body(found), address(found, "html_url"))


def review(said: object) -> Comment | None:
    """A review's verdict and words; None for one that is not sent yet, or has neither."""
    found = _object(said, "a review")
    state = str(found.get("state", "")).lower()
    if state == "pending" or found.get("submitted_at") is None or (state == "commented" and not found.get("body")):
        return None
    verdict = plain(state, 40)
    return Comment(author(found), instant(found, "submitted_at"), body(found), address(found, "html_url"), verdict)


def line_comment(said: object) -> Comment:
    """A comment on a line of a pull request."""
    found = _object(said, "a comment")
    line, path = found.get("line"), found.get("path")
    return Comment(
        author(found), instant(found, "created_at"), body(found), address(found, "html_url"), "commented",
        path if isinstance(path, str) else "", line if _whole(line) else None,
    )  # fmt: skip


def issue(said: object) -> Issue:
    """An issue, or what a pull request shares with one."""
    found = _object(said, "an issue")
    labels = found.get("labels")
    names = [one.get("name") if isinstance(one, Mapping) else one for one in labels] if isinstance(labels, list) else []
    return Issue(
        number(found, "number"), text(found, "title", 4096), "open" if found.get("state") == "open" else _closed(found),
        author(found), tuple(plain(name, 100) for name in names if isinstance(name, str)), body(found),
        address(found, "html_url"), number(found, "comments"), isinstance(found.get("pull_request"), Mapping),
    )  # fmt: skip


RUNS: Mapping[str, Literal["passed", "failed", "skipped"]] = {
    "success": "passed", "failure": "failed", "timed_out": "failed", "action_required": "failed",
    "startup_failure": "failed", "cancelled": "failed", "stale": "failed", "neutral": "skipped", "skipped": "skipped",
}  # fmt: skip
STATUSES: Mapping[str, Literal["running", "passed", "failed"]] = {
    "success": "passed", "failure": "failed", "error": "failed", "pending": "running",
}  # fmt: skip


def run(said: object) -> Check:
    """A check run."""
    found = _object(said, "a check run")
    conclusion, status = found.get("conclusion"), found.get("status")
    output = found.get("output")
    summary = output if isinstance(output, Mapping) else {}
    words = [plain(conclusion or status, 40), plain(summary.get("title")), plain(summary.get("summary"), 2000)]
    state = RUNS.get(str(conclusion)) if status == "completed" else "running" if status == "in_progress" else "queued"
    return Check(
        text(found, "name", 1024), state or "failed", ": ".join(one for one in words if one), link(found, "html_url")
    )


def status(said: object) -> Check:
    """A status of a commit."""
    found = _object(said, "a status")
    words = [plain(found.get("state"), 40), plain(found.get("description"))]
    state = STATUSES.get(str(found.get("state")), "failed")
    return Check(text(found, "context", 1024), state, ": ".join(one for one in words if one), link(found, "target_url"))


def author(said: Mapping[str, Any]) -> str:
    """Who wrote it; somebody's account may be gone, and an App's has brackets."""
    user = said.get("user")
    name = user.get("login") if isinstance(user, Mapping) else None
    return plain(name, 100) or GHOST


def body(said: Mapping[str, Any]) -> str:
    """What stands in it, as it was written; nothing where there is none."""
    found = said.get("body")
    return found[:TEXT_MOST].replace("\0", "") if isinstance(found, str) else ""


def number(said: Mapping[str, Any], name: str) -> int:
    """A whole number that a database keeps."""
    found = said.get(name)
    if not _whole(found) or not 0 <= found < 2**63:
        raise Unreadable(f"GitHub answered without the number {name}")
    return int(found)


def word(said: Mapping[str, Any], name: str) -> str:
    """A text without blanks."""
    found = said.get(name)
    if not isinstance(found, str) or not WORD.fullmatch(found):
        raise Unreadable(f"GitHub answered without the text {name}")
    return found


def text(said: Mapping[str, Any], name: str, most: int) -> str:
    """A text that is there, cut to `most` characters."""
    found = said.get(name)
    if not isinstance(found, str):
        raise Unreadable(f"GitHub answered without the text {name}")
    return found[:most].replace("\0", "")


def address(said: Mapping[str, Any], name: str) -> str:
    """An address that may stand in a link."""
    found = link(said, name)
    if not found:
        raise Unreadable(f"GitHub answered without the address {name}")
    return found


def link(said: Mapping[str, Any], name: str) -> str:
    """The same, or nothing where there is none that may: whoever sets a status gives any text."""
    found = said.get(name)
    if not isinstance(found, str) or len(found) > ADDRESS_MOST or not found.isascii() or not found.isprintable():
        return ""
    try:
        parts = urlsplit(found)
    except ValueError:
        return ""
    return found if parts.scheme in ("http", "https") and parts.hostname and " " not in found else ""


def instant(said: Mapping[str, Any], name: str) -> datetime:
    """An instant with its zone."""
    found = said.get(name)
    try:
        at = datetime.fromisoformat(found) if isinstance(found, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Unreadable(f"GitHub answered without the time {name}")
    return at.astimezone(UTC)


def listed(said: object, name: str | None = None) -> Sequence[Any]:
    """A list, bare or as a member of an object."""
    found = _object(said, "a list").get(name) if name is not None else said
    if not isinstance(found, list):
        raise Unreadable("GitHub answered with something else than a list")
    return found


def _object(said: object, what: str) -> Mapping[str, Any]:
    if not isinstance(said, Mapping):
        raise Unreadable(f"GitHub answered with something else than {what}")
    return said


def _closed(said: Mapping[str, Any]) -> Literal["closed"]:
    if said.get("state") != "closed":
        raise Unreadable("GitHub answered with a state that is neither open nor closed")
    return "closed"


def _yes(said: Mapping[str, Any], name: str) -> bool:
    found = said.get(name, False)
    if not isinstance(found, bool):
        raise Unreadable(f"GitHub answered without saying {name}")
    return found


def _ahead(said: Mapping[str, Any], name: str, now: datetime) -> datetime | None:
    if said.get(name) is None:
        return None
    found = said[name]
    seconds = int(found) if isinstance(found, str) and re.fullmatch(r"\d{1,9}", found, re.ASCII) else found
    if not _whole(seconds) or seconds < 0:
        raise Unreadable(f"GitHub answered without the number {name}")
    return now + timedelta(seconds=min(seconds, PAST_LIFE))


def _whole(found: object) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool)
