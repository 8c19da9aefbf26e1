"""Submodules as a repository lists them, and which of them may be fetched from where: pure.

A `.gitmodules` is a stranger's. What it names may lead to a path of the host, to a program, to a machine of the
network behind it, or out of the checkout; each of these is refused with a reason that stands in `lacks`.
Source: gitmodules(5), gitsubmodules(7).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rift.drivers.forge.local.access import origin_of

DEPTH_MOST = 8
"""How deep submodules stand in one another."""
MODULES_MOST = 200
NAME_MOST = 500

_SCP = re.compile(r"(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):(?!//)(.+)")
_PARTS_REFUSED = ("", ".", "..")
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""What some file systems leave out of names, so that `.git` can be spelled in many ways."""


class BadModule(Exception):
    """A submodule that is not fetched; the text says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of a `.gitmodules`."""

    name: str
    path: str
    url: str


@dataclass(frozen=True, slots=True)
class Source:
    """Where a submodule is fetched from: `own` where that is the host of the repository that lists it, which opens as
    that does; `host` and `port` of another one, which must be of the open internet. Neither for a path.
    """

    url: str
    own: bool = False
    host: str = ""
    port: int = 0


def listed(text: bytes) -> dict[str, Listed]:
    """What `git config --null --list` tells of a `.gitmodules`, by path. The last word on each counts, as for git."""
    found: dict[str, dict[str, str]] = {}
    for entry in text.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        section, _, rest = key.partition(".")
        name, _, what = rest.rpartition(".")
        if section == "submodule" and name and what in ("path", "url"):
            found.setdefault(name, {})[what] = value
    entries = (Listed(name, one.get("path", ""), one.get("url", "")) for name, one in found.items())
    return {one.path: one for one in entries}


def check_place(name: str, path: str) -> None:
    """Raise BadModule for a name or path that leads elsewhere than below the checkout and its `.git/modules`."""
    for what, text in (("name", name), ("path", path)):
        parts = text.split("/")
        if len(text) > NAME_MOST or text.startswith("-") or any(map(_leads_away, parts)):
            raise BadModule(f"its {what} leads elsewhere")
    if "\n" in name or "\r" in name or "\\" in name:
        raise BadModule("its name holds what none may hold")


def _leads_away(part: str) -> bool:
    plain = _IGNORED.sub("", part).rstrip(". ").lower() if part not in _PARTS_REFUSED else part
    return part in _PARTS_REFUSED or plain in (".git", "git~1") or plain.startswith(".git:")


def source(base: str, url: str, data: Path | None) -> Source:
    """Where a submodule of the repository at `base` comes from. Raises BadModule."""
    if not url or not url.isprintable() or url.startswith("-") or re.match(r"[A-Za-z0-9+.-]*::", url):
        raise BadModule("its address is none that may be fetched")
    whole = _beside(base, url) if url.startswith(("./", "../")) else url
    if (path := local_path(whole)) is not None:
        return Source(_near(base, path, data))
    scheme, host, port = _place(whole)
    origin = origin_of(base)
    if scheme in ("http", "https"):
        if urlsplit(whole).username is not None:
            raise BadModule("its address holds a user's name or password")
        if origin is not None and origin_of(whole) == origin:
            return Source(whole, own=True)
        return Source(whole, host=host, port=port)
    if origin is not None and host == urlsplit(base).hostname:
        return Source(_over_http(base, whole), own=True)
    if local_path(base) is None and origin is None and _place(base)[:2] == (scheme, host):
        return Source(whole, own=True)
    raise BadModule(f"its address is one of {scheme} on another host than the repository's")


def local_path(url: str) -> Path | None:
    """The path that git would read for this address; None for one of another host."""
    scheme, colons, rest = url.partition("://")
    if colons:
        return Path("/" + unquote(rest).lstrip("/")) if scheme.lower() == "file" else None
    return None if ":" in url.partition("/")[0] else Path(url)


def _beside(base: str, url: str) -> str:
    """A relative address, as git reads it: beside the repository's own."""
    scheme, colons, rest = base.rstrip("/").partition("://")
    start, left = (scheme + colons, rest) if colons else ("", scheme)
    between = "/"
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            cut = max(left.rfind("/"), -1 if colons else left.rfind(":"))
            if cut < 1:
                raise BadModule("its address leads beyond the host of the repository")
            between, left = left[cut], left[:cut]
        url = url.partition("/")[2]
    if not url or ".." in url.split("/"):
        raise BadModule("its address is none that may be fetched")
    return f"{start}{left}{between}{url}"


def _place(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises BadModule."""
    if "://" not in url:
        found = _SCP.fullmatch(url)
        if found is None:
            raise BadModule("its address is none that may be fetched")
        return "ssh", found[1].lower(), 22
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise BadModule("its address is none that may be fetched") from None
    scheme = parts.scheme.lower()
    ports: Mapping[str, int] = {"http": 80, "https": 443, "ssh": 22, "git": 9418}
    if scheme not in ports or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:.]+", host):
        raise BadModule("its address is none that may be fetched")
    return scheme, host.lower(), port or ports[scheme]


def _over_http(base: str, url: str) -> str:
    """The same repository by the way that the origin is reached: the access opens that, and no key is needed."""
    found = None if "://" in url else _SCP.fullmatch(url)
    path = found[2] if found else urlsplit(url).path
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{path.lstrip('/')}"


def _near(base: str, path: Path, data: Path | None) -> str:
    """A path of this host: only beside a repository that is one itself, and never below the data folder."""
    own = local_path(base)
    if own is None:
        raise BadModule("its address is a path of this host")
    found, near = path.resolve(), own.resolve().parent
    if near not in found.parents:
        raise BadModule(f"its path is not beside the repository's own, below {near}")
    if data is not None and (found == data.resolve() or data.resolve() in found.parents):
        raise BadModule("its path is below the data folder")
    return str(found)
