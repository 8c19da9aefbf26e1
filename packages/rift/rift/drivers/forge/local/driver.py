"""The local forge: any git URL or path, through git itself."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from keel.ids import Ids, SystemIds
from keel.secrecy import masked
from keel.sizes import GIB
from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.data import Data
from rift.drivers.forge import packets
from rift.drivers.forge.local import receiving, serving
from rift.drivers.forge.local.git import Ran, git, run
from rift.drivers.forge.local.quarantine import Quarantine
from rift.drivers.forge.local.reader import Reader
from rift.drivers.forge.local.receiving import Receiving
from rift.drivers.forge.local.sessions import Session, Sessions, Told
from rift.drivers.forge.packets import Push
from rift.drivers.forge.protocol import Access, ForgeError, Gathered, Part, Service
from rift.drivers.locks import locked

HEADS = "refs/heads/"
TAGS = "refs/tags/"
PINS = "refs/rift/boxes/"
MARK = "rift-mirror"
PUSH_LIMIT = 8 * GIB

#: What a mirror's own configuration adds: nothing that a box may borrow is ever removed.
CONFIGURATION = "[gc]\n\tauto = 0\n\tpruneExpire = never\n[maintenance]\n\tauto = false\n"

#: Lock files of refs. Git waits a second for one of them, so one still there then belongs to nobody.
LOCKS = ("packed-refs.lock", "packed-refs.new", "shallow.lock", "refs/heads/**/*.lock", "refs/tags/**/*.lock")

_PIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_HEAD = re.compile(r"^ref: (refs/heads/\S+)\tHEAD$", re.MULTILINE)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class LocalForge:
    """`heads_seconds` and `fetch_seconds` limit one call each, `push_seconds` what the origin takes of a box's push.

    `data` is the data folder, below which no submodule is read. `reader` is who reads what strangers sent, where that
    is not whoever runs this process. `sessions` are those of boxes that fetch and push; `push_limit` are the most
    bytes of one push.
    """

    kind = "local"

    def __init__(
        self,
        *,
        heads_seconds: float = 30.0,
        fetch_seconds: float = 900.0,
        push_seconds: float = 900.0,
        data: Path | None = None,
        reader: Reader | None = None,
        sessions: Sessions | None = None,
        push_limit: int = PUSH_LIMIT,
        ids: Ids | None = None,
    ) -> None:
        self._heads_seconds = heads_seconds
        self._fetch_seconds = fetch_seconds
        self._push_seconds = push_seconds
        self._data = data
        self._reader = reader
        self._sessions = sessions or Sessions()
        self._quarantine = Quarantine(reader, push_limit, ids or SystemIds())

    @outside_transactions
    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        return await self._heads(url, access)

    async def _heads(self, url: str, access: Access | None) -> dict[str, str]:
        return _branches(await self._ls_remote(url, access, "--heads"))

    async def _ls_remote(self, url: str, access: Access | None, option: str, *refs: str) -> str:
        check_url(url)
        try:
            return await git("ls-remote", option, "--", url, *refs, seconds=self._heads_seconds, url=url, access=access)
        except ForgeError as error:
            raise ForgeError(f"{masked(url)} cannot be read: {error.reason}") from error

    @outside_transactions
    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        return {
            name.removeprefix(HEADS): commit
            for name, commit in (await self._refresh(url, mirror, access)).items()
            if name.startswith(HEADS)
        }

    async def _refresh(self, url: str, mirror: Path, access: Access | None) -> dict[str, str]:
        """As `fetch`; returns branches and tags by their full names."""
        check_url(url)
        try:
            return await self._fetch_all(url, mirror, access)
        except OSError as error:
            raise ForgeError(f"{error.filename or mirror}: {error.strerror or error}") from error

    async def _fetch_all(self, url: str, mirror: Path, access: Access | None) -> dict[str, str]:
        await asyncio.to_thread(_make_parent, mirror.parent)
        async with locked(mirror.with_name(f".{mirror.name}.lock")) as lock:
            if not await asyncio.to_thread(_whole, mirror):
                await self._make(url, mirror, access)
            await asyncio.to_thread(_sweep, mirror, "objects/pack/tmp_*")
            try:
                await self._fetch(url, mirror, lock, access)
            except ForgeError as error:
                if ".lock': File exists" not in error.reason:
                    raise
                await asyncio.to_thread(_sweep, mirror, *LOCKS)
                await self._fetch(url, mirror, lock, access)
            listed = await git(
                f"--git-dir={mirror}",
                "for-each-ref",
                "--format=%(objectname)%09%(refname)",
                HEADS,
                TAGS,
                seconds=self._heads_seconds,
            )
        pairs = (line.partition("\t") for line in listed.splitlines())
        return {name: commit for commit, _, name in pairs}

    async def _fetch(self, url: str, mirror: Path, lock: int, access: Access | None) -> None:
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
                f"+{TAGS}*:{TAGS}*",
                seconds=self._fetch_seconds,
                pass_fds=(lock,),  # git may outlive us; nobody may take its files for leftovers then
                url=url,
                access=access,
            )
        except ForgeError as error:
            raise ForgeError(f"{masked(url)} cannot be fetched: {error.reason}") from error

    async def _make(self, url: str, mirror: Path, access: Access | None) -> None:
        """Make an empty mirror of the repository's object format; a half-made one is made anew."""
        found = await self._ls_remote(url, access, "--symref", "HEAD", f"{HEADS}*")
        kind = "sha256" if any(len(word) == 64 for line in found.splitlines() for word in line.split()[:1]) else "sha1"
        await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
        await git("init", "--quiet", "--bare", "--template=", f"--object-format={kind}", "--", str(mirror), seconds=30)
        if (head := _HEAD.search(found)) is not None and packets.plain_ref(head[1]):
            await git(f"--git-dir={mirror}", "symbolic-ref", "HEAD", head[1], seconds=30)
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

    @outside_transactions
    async def gather(self, url: str, mirror: Path, commit: str, access: Access | None = None) -> Gathered:
        if not _COMMIT.fullmatch(commit):
            raise ForgeError(f"{commit!r} is not the full name of a commit")
        await git(f"--git-dir={mirror}", "cat-file", "-e", f"{commit}^{{commit}}", seconds=self._heads_seconds)
        return Gathered()

    @outside_transactions
    async def open(
        self, mirror: Path, url: str, service: Service, part: Part, version: int = 0, access: Access | None = None
    ) -> str:
        check_url(url)
        self._sessions.reserve()
        try:
            return self._sessions.add(await self._begin(mirror, url, service, part, version, access))
        except OSError as error:
            raise ForgeError(f"{error.filename or mirror}: {error.strerror or error}") from error
        finally:
            self._sessions.release()

    async def _begin(
        self, mirror: Path, url: str, service: Service, part: Part, version: int, access: Access | None
    ) -> Session:
        if part == "refs" or not await asyncio.to_thread(_whole, mirror):
            refs = await self._refresh(url, mirror, access)
            if part == "refs" and service == "receive-pack":
                return Told(await self._advertised(mirror, refs))
        if self._reader is not None:
            await asyncio.to_thread(self._reader.open_mirror, mirror)
        if service == "upload-pack":
            return await serving.serve(mirror, part, version, self._reader)

        async def hand(asked: Push, folder: Path) -> Ran:
            return await run(
                f"--git-dir={mirror}",
                *receiving.push_words(asked, url),
                seconds=self._push_seconds,
                url=url,
                access=access,
                more={"GIT_ALTERNATE_OBJECT_DIRECTORIES": receiving.quoted(folder / "objects")},
            )

        return Receiving(mirror, await self._quarantine.room(mirror), self._reader, hand)

    async def _advertised(self, mirror: Path, refs: dict[str, str]) -> bytes:
        format_ = await git(f"--git-dir={mirror}", "rev-parse", "--show-object-format", seconds=self._heads_seconds)
        kind = format_.strip()
        return packets.advertised("receive-pack", refs, receiving.ABLE.format(kind=kind), kind)

    @outside_transactions
    async def feed(self, session: str, data: Data, last: bool) -> None:
        await self._sessions.feed(session, data, last=last)

    @outside_transactions
    async def drain(self, session: str) -> Data | None:
        return await self._sessions.drain(session)

    @outside_transactions
    async def close(self, session: str) -> None:
        await self._sessions.close(session)


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
