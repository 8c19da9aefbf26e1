"""Upload-pack for a box: the mirror's heads and tags, and nothing else of it, by git itself."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path

from rift.drivers.forge import packets
from rift.drivers.forge.local.git import end, end_of, shown
from rift.drivers.forge.local.reader import Reader, start
from rift.drivers.forge.protocol import FEED_BYTES, ForgeError, Part

_SHOWN = (
    "transfer.hideRefs=refs",
    "transfer.hideRefs=!refs/heads/",
    "transfer.hideRefs=!refs/tags/",
    "uploadpack.allowFilter=true",
)


class Serving:
    """One request, a git of its own."""

    def __init__(self, process: Process, before: bytes) -> None:
        self._process = process
        self._before = before
        self._told = False
        assert process.stderr is not None
        self._complaint = asyncio.create_task(end_of(process.stderr), name="git's complaint")

    async def feed(self, data: bytes, *, last: bool) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(ConnectionError, RuntimeError):  # it has its answer already, and reads no more
            stdin.write(data)
            await stdin.drain()
            if last:
                stdin.close()

    async def drain(self) -> bytes | None:
        if self._before:
            told, self._before = self._before, b""
            return told
        assert self._process.stdout is not None
        if told := await self._process.stdout.read(FEED_BYTES):
            self._told = True
            return told
        if await self._process.wait() and not self._told:
            raise ForgeError(shown((await self._complaint).decode("utf-8", "replace")) or "git could not serve this")
        return None

    async def close(self) -> None:
        await end(self._process)
        self._complaint.cancel()
        if self._process.stdin is not None:
            self._process.stdin.close()


async def serve(mirror: Path, part: Part, version: int, reader: Reader | None) -> Serving:
    """Begin to answer one request from the mirror. Raises ForgeError."""
    words = ["upload-pack", "--strict", "--stateless-rpc"]
    if part == "refs":
        words.append("--advertise-refs")
    more = {"GIT_PROTOCOL": f"version={version}"} if version else {}
    process = await start(mirror, *words, str(mirror), reader=reader, more=more, config=_SHOWN)
    before = b""
    if part == "refs" and version != 2:
        before = packets.packet(b"# service=git-upload-pack\n") + packets.FLUSH
    return Serving(process, before)
