"""Mirrors on disk: bare repositories that boxes borrow from, made, brought up to date, noticed when they are lost."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from keel.secrecy import masked
from rift.drivers.forge import packets
from rift.drivers.forge.local.git import KEPT_FREE, Floor, git
from rift.drivers.forge.protocol import Access, ForgeError
from rift.drivers.locks import locked

HEADS = "refs/heads/"
TAGS = "refs/tags/"
MARK = "rift-mirror"

#: What a mirror's own configuration adds: nothing that a box may borrow is ever removed.
CONFIGURATION = "[gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n"

LEFT = ("objects/pack/tmp_*", "objects/[0-9a-f][0-9a-f]/tmp_obj_*")
"""What a git that was killed had begun to write."""
#: Lock files of refs. Git waits a second for one of them, so one still there then belongs to nobody.
LOCKS = ("packed-refs.lock", "packed-refs.new", "shallow.lock", "refs/heads/**/*.lock", "refs/tags/**/*.lock")

_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEAD = re.compile(r"^ref: (refs/heads/\S+)\tHEAD$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Opening:
    """How an origin is reached: what opens it, and what git is told besides, by words and variables.

    A `stranger` is on another host than the repository that lists it.
    """

    access: Access | None = None
    words: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)
    stranger: bool = False


PLAINLY = Opening()


class Mirrors:
    """`heads_seconds` and `fetch_seconds` limit one call each; the disk's last `kept_free` bytes no fetch takes."""

    def __init__(self, heads_seconds: float, fetch_seconds: float, kept_free: int = KEPT_FREE) -> None:
        self._heads_seconds = heads_seconds
        self._fetch_seconds = fetch_seconds
        self._kept_free = kept_free

    def floor(self, place: Path) -> Floor:
        """What a git that writes there must leave of its disk."""
        return Floor(place, self._kept_free)

    async def heads(self, url: str, opening: Opening) -> dict[str, str]:
        """The branches of the repository as they are now, by their short names."""
        return _branches(await self._ls_remote(url, opening, "--heads"))

    async def default(self, url: str, opening: Opening) -> str | None:
        """The branch that HEAD names there, by its short name; None where it names none."""
        found = _HEAD.search(await self._ls_remote(url, opening, "--symref", "HEAD"))
        return found[1].removeprefix(HEADS) if found is not None and packets.plain_ref(found[1]) else None

    async def _ls_remote(self, url: str, opening: Opening, option: str, *refs: str) -> str:
        check_url(url)
        try:
            return await git(
                *opening.words, "ls-remote", option, "--", url, *refs,
                seconds=self._heads_seconds, url=url, access=opening.access, more=opening.more,
            )  # fmt: skip
        except ForgeError as error:
            raise ForgeError(f"{masked(url)} cannot be read: {error.reason}") from error

    async def bring(self, url: str, mirror: Path, opening: Opening) -> dict[str, str]:
        """Make the mirror where it is not there, fetch, and return branches and tags by their full names."""
        check_url(url)
        try:
            return await self._fetch_all(url, mirror, opening)
        except OSError as error:
            raise ForgeError(f"{error.filename or mirror}: {error.strerror or error}") from error

    async def _fetch_all(self, url: str, mirror: Path, opening: Opening) -> dict[str, str]:
        await asyncio.to_thread(_make_parent, mirror.parent)
        async with locked(mirror.with_name(f".{mirror.name}.lock")) as lock:
            if not await asyncio.to_thread(whole, mirror):
                await self._make(url, mirror, opening)
            await asyncio.to_thread(_sweep, mirror, *LEFT)
            try:
                await self._fetch(url, mirror, lock, opening)
            except ForgeError as error:
                if ".lock': File exists" not in error.reason:
                    raise
                await asyncio.to_thread(_sweep, mirror, *LOCKS)
                await self._fetch(url, mirror, lock, opening)
            listed = await git(
                f"--git-dir={mirror}",
                "for-each-ref",
                "--format=%(objectname)%09%(refname)",
                HEADS,
                TAGS,
                seconds=self._heads_seconds,
            )
        return _refs(listed)

    async def _fetch(self, url: str, mirror: Path, lock: int, opening: Opening) -> None:
        try:
            await git(
                *opening.words,
                f"--git-dir={mirror}",
                "fetch",
                "--quiet",
                "--prune",
                "--update-shallow",  # an origin without its whole history is mirrored as it is
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--",
                url,
                f"+{HEADS}*:{HEADS}*",
                f"+{TAGS}*:{TAGS}*",
                seconds=self._fetch_seconds,
                pass_fds=(lock,),  # git may outlive us; nobody may take its files for leftovers then
                url=url,
                access=opening.access,
                more=opening.more,
                floor=self.floor(mirror),
            )
        except ForgeError as error:
            await asyncio.to_thread(_sweep, mirror, *LEFT)  # at once: the disk may be full of it
            raise ForgeError(f"{masked(url)} cannot be fetched: {error.reason}") from error

    async def _make(self, url: str, mirror: Path, opening: Opening) -> None:
        """Make an empty mirror of the repository's object format; a half-made one is made anew."""
        found = await self._ls_remote(url, opening, "--symref", "HEAD", f"{HEADS}*")
        kind = "sha256" if any(_SHA256.fullmatch(commit) for commit in _refs(found).values()) else "sha1"
        await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
        await git("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", "--", str(mirror), seconds=30)
        if (head := _HEAD.search(found)) is not None and packets.plain_ref(head[1]):
            await git(f"--git-dir={mirror}", "symbolic-ref", "HEAD", head[1], seconds=30)
        await asyncio.to_thread(_finish, mirror)


def check_url(url: str) -> None:
    """Raise ForgeError for what git would take for something else than an address."""
    if not url or url.startswith("-") or any(ord(character) < 32 for character in url):
        raise ForgeError(f"{masked(url)!r} is not the address of a repository")


def _branches(listed: str) -> dict[str, str]:
    return {name.removeprefix(HEADS): commit for name, commit in _refs(listed).items() if name.startswith(HEADS)}


def _refs(listed: str) -> dict[str, str]:
    """Refs by their full names from git's lines of a commit, a tab and a name.

    A name may hold what Unicode takes for the end of a line: whoever makes `main\\u2028x` shall not move `main` by it.
    """
    pairs = (line.partition("\t") for line in listed.split("\n"))
    return {name: commit for commit, tab, name in pairs if tab}


def _make_parent(folder: Path) -> None:
    """Boxes' users pass through it to the mirror they borrow from, whatever this process's umask is."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)


def _finish(mirror: Path) -> None:
    with (mirror / "config").open("a") as file:
        file.write(CONFIGURATION)
    (mirror / MARK).touch()


def whole(mirror: Path) -> bool:
    """Whether a mirror was made to its end, and has objects if it has refs."""
    if not (mirror / MARK).exists() or not (mirror / "objects").is_dir():
        return False
    objects = any(mirror.glob("objects/pack/*.pack")) or any(mirror.glob("objects/[0-9a-f][0-9a-f]/*"))
    return objects or not ((mirror / "packed-refs").exists() or any(mirror.glob("refs/heads/*")))


def _sweep(mirror: Path, *patterns: str) -> None:
    """Remove what a git that was killed left behind. The caller holds the mirror's lock, so no other fetch runs."""
    for pattern in patterns:
        for left in mirror.glob(pattern):
            left.unlink(missing_ok=True)
