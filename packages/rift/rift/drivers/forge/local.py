"""The local forge: any git URL or path, through git itself."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from keel.secrecy import masked
from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.forge.git import git
from rift.drivers.forge.protocol import Access, ForgeError
from rift.drivers.locks import locked

HEADS = "refs/heads/"
PINS = "refs/rift/boxes/"
MARK = "rift-mirror"

#: What a mirror's own configuration adds: nothing that a box may borrow is ever removed.
CONFIGURATION = "[gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n"

#: Lock files of refs. Git waits a second for one of them, so one still there then belongs to nobody.
LOCKS = ("packed-refs.lock", "packed-refs.new", "shallow.lock", "refs/heads/**/*.lock", "refs/tags/**/*.lock")

_PIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class LocalForge:
    """`heads_seconds` and `fetch_seconds` limit one call each."""

    kind = "local"

    def __init__(self, *, heads_seconds: float = 30.0, fetch_seconds: float = 900.0) -> None:
        self._heads_seconds = heads_seconds
        self._fetch_seconds = fetch_seconds

    @outside_transactions
    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        return await self._heads(url)

    async def _heads(self, url: str) -> dict[str, str]:
        check_url(url)
        try:
            listed = await git("ls-remote", "--heads", "--", url, seconds=self._heads_seconds)
        except ForgeError as error:
            raise ForgeError(f"{masked(url)} cannot be read: {error.reason}") from error
        return _branches(listed)

    @outside_transactions
    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        check_url(url)
        try:
            return await self._fetch_all(url, mirror)
        except OSError as error:
            raise ForgeError(f"{error.filename or mirror}: {error.strerror or error}") from error

    async def _fetch_all(self, url: str, mirror: Path) -> dict[str, str]:
        await asyncio.to_thread(_make_parent, mirror.parent)
        async with locked(mirror.with_name(f".{mirror.name}.lock")) as lock:
            if not await asyncio.to_thread(_whole, mirror):
                await self._make(url, mirror)
            await asyncio.to_thread(_sweep, mirror, "objects/pack/tmp_*")
            try:
                await self._fetch(url, mirror, lock)
            except ForgeError as error:
                if ".lock': File exists" not in error.reason:
                    raise
                await asyncio.to_thread(_sweep, mirror, *LOCKS)
                await self._fetch(url, mirror, lock)
            listed = await git(
                f"--git-dir={mirror}",
                "for-each-ref",
                "--format=%(objectname)%09%(refname)",
                HEADS,
                seconds=self._heads_seconds,
            )
        return _branches(listed)

    async def _fetch(self, url: str, mirror: Path, lock: int) -> None:
        try:
            await git(
                f"--git-dir={mirror}",
                "fetch",
                "--quiet",
                "--prune",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
                "--",
                url,
                f"+{HEADS}*:{HEADS}*",
                "+refs/tags/*:refs/tags/*",
                seconds=self._fetch_seconds,
                pass_fds=(lock,),  # git may outlive us; nobody may take its files for leftovers then
            )
        except ForgeError as error:
            raise ForgeError(f"{masked(url)} cannot be fetched: {error.reason}") from error

    async def _make(self, url: str, mirror: Path) -> None:
        """Make an empty mirror of the repository's object format; a half-made one is made anew."""
        heads = await self._heads(url)
        kind = "sha256" if any(len(commit) == 64 for commit in heads.values()) else "sha1"
        await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
        await git("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", "--", str(mirror), seconds=30)
        await asyncio.to_thread(_finish, mirror)

    @outside_transactions
    async def has(self, mirror: Path) -> bool:
        return await asyncio.to_thread(_whole, mirror)

    @outside_transactions
    async def pin(self, mirror: Path, box: str, commit: str) -> None:
        if not _COMMIT.fullmatch(commit):
            raise ForgeError(f"{commit!r} is not the full name of a commit")
        await git(f"--git-dir={mirror}", "update-ref", _pin(box), commit, seconds=self._heads_seconds)

    @outside_transactions
    async def pins(self, mirror: Path) -> frozenset[str]:
        if not await asyncio.to_thread((mirror / MARK).exists):
            return frozenset()
        listed = await git(
            f"--git-dir={mirror}", "for-each-ref", "--format=%(refname)", PINS, seconds=self._heads_seconds
        )
        return frozenset(line.removeprefix(PINS) for line in listed.splitlines())

    @outside_transactions
    async def unpin(self, mirror: Path, box: str) -> None:
        if await asyncio.to_thread(mirror.is_dir):
            await git(f"--git-dir={mirror}", "update-ref", "-d", _pin(box), seconds=self._heads_seconds)


def check_url(url: str) -> None:
    """Raise ForgeError for what git would take for something else than an address."""
    if not url or url.startswith("-") or any(ord(character) < 32 for character in url):
        raise ForgeError(f"{masked(url)!r} is not the address of a repository")


def _pin(box: str) -> str:
    if not _PIN_NAME.fullmatch(box) or ".." in box or box.endswith((".", ".lock")):
        raise ForgeError(f"{box!r} is not the id of a box")
    return PINS + box


def _branches(listed: str) -> dict[str, str]:
    """Heads from lines of a commit, a tab and a full ref name."""
    pairs = (line.partition("\t") for line in listed.splitlines())
    return {name.removeprefix(HEADS): commit for commit, _, name in pairs if name.startswith(HEADS)}


def _make_parent(folder: Path) -> None:
    """Boxes' users pass through it to the mirror they borrow from, whatever this process's umask is."""
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o711)


def _finish(mirror: Path) -> None:
    with (mirror / "config").open("a") as file:
        file.write(CONFIGURATION)
    (mirror / MARK).touch()


def _whole(mirror: Path) -> bool:
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
