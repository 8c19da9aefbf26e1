"""What an origin is, which of its heads are kept, and what moved. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from keel.refusal import Refusal
from keel.secrecy import masked
from rift.origins import refusals
from rift.repos.model import Change, Heads

SCHEMES = ("https", "http", "ssh", "git", "file")
"""What is fetched. Git's own helpers (`ext::`) run commands, so nothing else is."""

RESTS_MOST = timedelta(minutes=30)
"""How long an origin that cannot be read is left alone at most."""

_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")
_SCP = re.compile(r"(?:[\w.+-]+@)?[\w.-]+:(?!:|//)[^\s].*")


def name_of(text: str) -> tuple[str, str] | None:
    """Owner and name of `OWNER/NAME`, or None when it is not of that shape."""
    owner, slash, name = text.strip().partition("/")
    fit = slash and all(_PART.fullmatch(part) and part.strip(".") for part in (owner, name))
    return (owner, name) if fit else None


def url_of(origin: str) -> str | Refusal | None:
    """The origin as a git URL, None when it is a path to look for, or why it is neither."""
    if not origin or not origin.isprintable() or origin.startswith("-"):
        return refusals.bad_origin(masked(origin), "it is no URL and no path")
    scheme, colons, _ = origin.partition("://")
    if colons:
        try:
            parts = urlsplit(origin)
        except ValueError as error:
            return refusals.bad_origin(masked(origin), str(error))
        if scheme.lower() not in SCHEMES:
            return refusals.bad_origin(masked(origin), f"{scheme} is not fetched")
        if scheme.lower() != "file" and (not parts.hostname or parts.hostname.startswith("-")):
            return refusals.bad_origin(masked(origin), "it names no host")
        return origin
    if re.match(r"\w+::", origin):
        return refusals.bad_origin(masked(origin), "git's remote helpers are not used")
    before_slash = origin.split("/", maxsplit=1)[0]
    return origin if ":" in before_slash and _SCP.fullmatch(origin) else None


def storable(heads: Heads) -> dict[str, str]:
    """The heads whose branch names are text; git takes any bytes, and those that are none cannot be named in a call."""
    return {ref: commit for ref, commit in heads.items() if ref.isprintable()}


def changes(before: Heads, after: Heads) -> tuple[Change, ...]:
    """What moved between two looks at the heads, by ref."""
    refs = sorted(before.keys() | after.keys())
    return tuple(Change(ref, before.get(ref), after.get(ref)) for ref in refs if before.get(ref) != after.get(ref))


def rests_until(failures: int, every: timedelta, now: datetime) -> datetime:
    """When an origin that could not be read so often in a row is looked at by itself again: twice as late each time."""
    twice: int = 2 ** min(failures, 16)
    return now + min(every * twice, RESTS_MOST)
