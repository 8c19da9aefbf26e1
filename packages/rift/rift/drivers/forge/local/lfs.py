"""LFS files of a commit: which there are, which are here, and fetching those that are not, by git-lfs.

Content stands in the mirror's `lfs/objects`, by its hash, where git-lfs of a box finds it beside the objects that it
borrows. A repository's own `.lfsconfig` does not say where from: only its origin does.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rift.drivers.forge.local import trees
from rift.drivers.forge.local.access import origin_of
from rift.drivers.forge.local.git import Floor, run, shown
from rift.drivers.forge.local.mirrors import Opening
from rift.drivers.forge.local.trees import Entry
from rift.drivers.forge.protocol import ForgeError

POINTER_MOST = 1024
"""Bytes of the longest pointer (git-lfs's specification)."""
SHOWN_MOST = 20
NAME_MOST = 200
FETCH = ("lfs.concurrenttransfers=4", "lfs.transfer.maxretries=2", "lfs.locksverify=false", "lfs.activitytimeout=60",
         "lfs.dialtimeout=30", "lfs.fetchrecentalways=false", "lfs.allowincompletepush=false")  # fmt: skip

_POINTER = re.compile(
    rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:ext-[^\n]*\n)*"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)


@dataclass(frozen=True, slots=True)
class Pointer:
    """What stands in git in place of a file: the SHA-256 of its content, and its size in bytes."""

    oid: str
    size: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """LFS files of a commit: the patterns that are so kept, and the pointers that are there."""

    patterns: tuple[str, ...]
    pointers: frozenset[Pointer]


def pointer(data: bytes) -> Pointer | None:
    """The pointer that a file is; None for any other file."""
    found = _POINTER.fullmatch(data)
    return None if found is None else Pointer(found[1].decode(), int(found[2]))


async def wanted(repository: Path, found: Sequence[Entry]) -> Wanted:
    """What the commit with these entries keeps in LFS. Raises ForgeError."""
    attributes = {
        one.object: one.path
        for one in found
        if one.path.rpartition("/")[2] == ".gitattributes" and one.mode in trees.FILES and one.size <= trees.TEXT_MOST
    }
    patterns: list[str] = []
    async for name, text in trees.contents(repository, list(attributes)):
        folder = attributes[name].rpartition("/")[0]
        lines = (line.split() for line in text.decode("utf-8", "replace").splitlines())
        named = [words[0] for words in lines if "filter=lfs" in words[1:]]
        patterns += [f"{folder}/{name}" if folder else name for name in named]
    if not patterns:
        return Wanted((), frozenset())
    small = [one.object for one in found if one.mode in trees.FILES and 100 < one.size < POINTER_MOST]
    pointers = [pointer(data) async for _, data in trees.contents(repository, small)]
    return Wanted(tuple(patterns), frozenset(one for one in pointers if one is not None and one.size))


def kept(store: Path, one: Pointer) -> bool:
    """Whether the content is in the store."""
    try:
        return (store / "objects" / one.oid[:2] / one.oid[2:4] / one.oid).stat().st_size == one.size
    except OSError:
        return False


async def fetch(
    repository: Path,
    store: Path,
    commit: str,
    url: str,
    opening: Opening,
    asked: Wanted,
    seconds: float,
    floor: Floor,
) -> str | None:
    """Bring the content of what is asked into the store. Why some of it is not there; None when all is."""
    missing = [one for one in asked.pointers if not await asyncio.to_thread(kept, store, one)]
    if not missing:
        return None
    told = f"LFS files are pointers, not their content: {names(asked.patterns)}."
    if opening.stranger:  # git-lfs goes to whatever address a server tells it, the host's own network included
        return f"{told} They are at another host than the repository's: git alone is asked there."
    if shutil.which("git-lfs") is None:
        return f"{told} This host has no git-lfs: `apt install git-lfs`."
    free = (await asyncio.to_thread(shutil.disk_usage, repository)).free
    if sum(one.size for one in missing) > free - floor.free:
        return f"{told} This host has no room for them."
    # Said outright for every origin: where it is not, git-lfs goes by the `.lfsconfig` of the mirror's HEAD.
    settings = [*FETCH, f"remote.origin.url={url}", f"lfs.url={server(url) or url}"]
    words = [word for one in settings for word in ("-c", one)]
    try:
        ran = await run(
            *opening.words, *words, f"--git-dir={repository}", "lfs", "fetch", "--include=", "--exclude=", "origin",
            commit, seconds=seconds, url=url, access=opening.access, more=opening.more, floor=floor,
        )  # fmt: skip
        said = shown(ran.err)
    except ForgeError as error:  # it took too long, or more than the pointers say; what came is kept
        said = error.reason
        for begun in ("tmp", "incomplete"):
            await asyncio.to_thread(shutil.rmtree, repository / "lfs" / begun, ignore_errors=True)
    await asyncio.to_thread(_move, repository / "lfs" / "objects", store, missing)
    await asyncio.to_thread(_readable, store)
    left = sum([not await asyncio.to_thread(kept, store, one) for one in missing])
    if left == 0:
        return None
    return f"{told} {left} of {len(asked.pointers)} could not be fetched: {said or 'the server has none'}."


def server(url: str) -> str | None:
    """Where an origin's LFS is, by the rule that clients go by; None where its address is no HTTP one."""
    if origin_of(url) is None:
        return None
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{path if path.endswith('.git') else f'{path}.git'}/info/lfs"


def names(found: Sequence[str]) -> str:
    """Some names that a repository gave, for a sentence: few, none long, and nothing in them but what can be shown."""
    shown_names = [
        "".join(letter if letter.isprintable() else "?" for letter in name[:NAME_MOST]) for name in found[:SHOWN_MOST]
    ]
    return ", ".join(shown_names)


def _move(fetched: Path, store: Path, wanted: Sequence[Pointer]) -> None:
    """From a submodule's mirror to the one store. (`lfs.storage` would count for an origin on this host as well.)"""
    if fetched == store / "objects":
        return
    for one in wanted:
        part = Path(one.oid[:2], one.oid[2:4])
        if (fetched / part / one.oid).is_file():
            (store / "objects" / part).mkdir(parents=True, exist_ok=True)
            (fetched / part / one.oid).replace(store / "objects" / part / one.oid)


def _readable(store: Path) -> None:
    """Boxes' users read what is kept; the mirror's own folder keeps others out."""
    for path, folders, files in os.walk(store):
        for name, mode in [(name, 0o755) for name in folders] + [(name, 0o644) for name in files]:
            one = Path(path, name)
            if not one.is_symlink() and one.stat().st_mode & mode != mode:
                one.chmod(mode)
    if store.is_dir():
        store.chmod(0o755)
