"""The local forge: any git URL or path, through git itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from keel.ids import Ids, SystemIds
from keel.sizes import GIB
from rift.drivers.boxes.protocol import outside_transactions
from rift.drivers.data import Data
from rift.drivers.forge import packets
from rift.drivers.forge.local import receiving, serving
from rift.drivers.forge.local.gathering import Gathering
from rift.drivers.forge.local.git import KEPT_FREE, Ran, git, run
from rift.drivers.forge.local.mirrors import HEADS, MARK, Mirrors, Opening, check_url, whole
from rift.drivers.forge.local.quarantine import Quarantine
from rift.drivers.forge.local.reader import Reader
from rift.drivers.forge.local.receiving import Receiving
from rift.drivers.forge.local.sessions import Session, Sessions, Told
from rift.drivers.forge.packets import Push
from rift.drivers.forge.protocol import Access, ForgeError, Gathered, Part, Service

PINS = "refs/rift/boxes/"
PUSH_LIMIT = 8 * GIB

_PIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class LocalForge:
    """`heads_seconds` and `fetch_seconds` limit one call each, `push_seconds` what the origin takes of a box's push.

    `data` is the data folder, below which no submodule is read. `reader` is who reads what strangers sent, where that
    is not whoever runs this process. `sessions` are those of boxes that fetch and push; `push_limit` are the most
    bytes of one push, `kept_free` those of the disk that nothing of this takes.
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
        kept_free: int = KEPT_FREE,
        ids: Ids | None = None,
    ) -> None:
        self._heads_seconds = heads_seconds
        self._mirrors = Mirrors(heads_seconds, fetch_seconds, kept_free)
        self._gathering = Gathering(self._mirrors, data, heads_seconds, fetch_seconds)
        self._push_seconds = push_seconds
        self._reader = reader
        self._sessions = sessions or Sessions()
        self._quarantine = Quarantine(reader, push_limit, kept_free, ids or SystemIds())

    @outside_transactions
    async def heads(self, url: str, access: Access | None = None) -> dict[str, str]:
        return await self._mirrors.heads(url, Opening(access))

    @outside_transactions
    async def default(self, url: str, access: Access | None = None) -> str | None:
        return await self._mirrors.default(url, Opening(access))

    @outside_transactions
    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        return {
            name.removeprefix(HEADS): commit
            for name, commit in (await self._mirrors.bring(url, mirror, Opening(access))).items()
            if name.startswith(HEADS)
        }

    @outside_transactions
    async def has(self, mirror: Path) -> bool:
        return await asyncio.to_thread(whole, mirror)

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
        try:
            return await self._gathering.gather(url, mirror, commit, access)
        except OSError as error:
            raise ForgeError(f"{error.filename or mirror}: {error.strerror or error}") from error

    @outside_transactions
    async def open(
        self, mirror: Path, url: str, service: Service, part: Part, version: int = 0, access: Access | None = None
    ) -> str:
        check_url(url)
        with self._sessions.place(mirror):
            try:
                return self._sessions.add(mirror, await self._begin(mirror, url, service, part, version, access))
            except OSError as error:
                raise ForgeError(f"{error.filename or mirror}: {error.strerror or error}") from error

    async def _begin(
        self, mirror: Path, url: str, service: Service, part: Part, version: int, access: Access | None
    ) -> Session:
        if part == "refs" or not await asyncio.to_thread(whole, mirror):
            refs = await self._mirrors.bring(url, mirror, Opening(access))
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


def _pin(box: str) -> str:
    if not _PIN_NAME.fullmatch(box) or ".." in box or box.endswith((".", ".lock")):
        raise ForgeError(f"{box!r} is not the id of a box")
    return PINS + box
