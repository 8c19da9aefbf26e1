"""Receive-pack for a box: what it pushes is unpacked beside the mirror, looked through, and handed on to the origin.

The pack is read by a git without the operator's rights and credentials (`reader`), into a folder of this session's own
that borrows the mirror's objects. Only `git push` to the origin is the operator's. Each ref is moved under the
condition that it is there what the client saw, so that nothing is overwritten that it did not know of.
"""

from __future__ import annotations

import asyncio
import re
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.forge import packets
from rift.drivers.forge.local.git import FULL, Floor, Ran, end, end_of, guarding, shown
from rift.drivers.forge.local.reader import Reader, start
from rift.drivers.forge.packets import BadRequest, Packets, Push
from rift.drivers.forge.protocol import ForgeError

ABLE = "report-status delete-refs side-band-64k quiet atomic ofs-delta object-format={kind} agent=rift"
KEEP_ALIVE = 4.0
EMPTY_PACK = 12
"""Bytes of a pack's head: its name, version and how many objects it has."""
MARK_MOST = 32
"""Bytes of the hash that ends a pack, of the longer kind."""

Hand = Callable[[Push, Path], Awaitable[Ran]]
"""Pushes what was unpacked in a folder to the origin."""

CHECKED_OUT = (
    "the origin has it checked out: push to another branch, or have its owner run "
    "`git config receive.denyCurrentBranch updateInstead` there"
)
#: What git says of a ref that was refused, and what a person can do about it.
MENDS: tuple[tuple[str, str], ...] = (
    ("stale info", "it moved since you fetched: `git fetch`, then rebase or merge, and push again"),
    ("fetch first", "it moved since you fetched: `git fetch`, then rebase or merge, and push again"),
    ("non-fast-forward", "the origin takes no push that drops commits: `git fetch`, then rebase or merge"),
    ("branch is currently checked out", CHECKED_OUT),
    ("hook declined", "a hook of the origin refused it; what it said stands above"),
    ("protected branch", "the origin protects this branch: push to another one"),
    ("atomic push failed", "another ref of this atomic push was refused"),
)

LEANS = "did not receive expected object"
"""What git says of a pack whose objects lean on some that are in neither the pack nor the mirror."""
LEANS_MEND = (
    "a commit of this push leans on history that neither it nor the origin has: in a checkout without its whole "
    "history, `git fetch --unshallow` from where that history came, and push again"
)


@dataclass(frozen=True, slots=True)
class Room:
    """Where a session unpacks: its folder, the most bytes of a pack, what all that is unpacked at once must
    leave of the disk, and the locks that go with it.
    """

    folder: Path
    most: int
    floor: Floor
    keeps: AsyncExitStack


class Receiving:
    """One push, from its first byte to its report."""

    def __init__(self, mirror: Path, room: Room, reader: Reader | None, hand: Hand) -> None:
        self._mirror = mirror
        self._room = room
        self._reader = reader
        self._hand = hand
        self._packets = Packets()
        self._lines: list[bytes] = []
        self._size = 0
        self._asked: Push | None = None
        self._head = b""
        self._unpacker: Process | None = None
        self._complaint: asyncio.Task[bytes] | None = None
        self._guard: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._finishing: asyncio.Task[None] | None = None
        self._answer: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._over = False

    async def feed(self, data: bytes, *, last: bool) -> None:
        if self._finishing is not None or self._over:
            return
        try:
            await self._take(data)
        except BadRequest as error:
            self._refuse(f"this push cannot be read: {error}")
            return
        if last:
            self._finishing = asyncio.create_task(self._finish(), name="a push")

    async def _take(self, data: bytes) -> None:
        if self._asked is None:
            lines, ended = self._packets.take(data)
            self._lines += lines
            self._size += packets.cost(lines)
            if self._size > packets.COMMANDS_BYTES:
                raise BadRequest(packets.TOO_MUCH)
            if not ended:
                return
            if not self._lines:
                return  # a client that only asks whether it may: git does so before a large push
            self._asked, data = packets.push(self._lines), self._packets.rest
        if self._unpacker is None and self._asked.brings:
            self._head += data
            if len(self._head) < EMPTY_PACK:
                return
            data, self._head = self._head, b""
            if data.startswith(b"PACK") and not data[8:EMPTY_PACK].strip(b"\0"):
                if len(data) > EMPTY_PACK + MARK_MOST:
                    raise BadRequest("its pack says that nothing is in it, and goes on")
                self._head = data  # nothing is in it: all of it is there already
                return
            await self._unpack()
        if self._unpacker is not None and data:
            assert self._unpacker.stdin is not None
            with suppress(ConnectionError, RuntimeError):  # it gave up, and says why
                self._unpacker.stdin.write(data)
                await self._unpacker.stdin.drain()

    async def _unpack(self) -> None:
        objects = self._room.folder / "objects"
        self._unpacker = await start(
            self._mirror,
            f"--git-dir={self._mirror}",
            "index-pack",
            "--stdin",
            "--fix-thin",
            "--strict",
            f"--max-input-size={self._room.most}",
            reader=self._reader,
            more={
                "GIT_OBJECT_DIRECTORY": str(objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": quoted(self._mirror / "objects"),
            },
        )
        assert self._unpacker.stderr is not None
        self._complaint = asyncio.create_task(end_of(self._unpacker.stderr), name="git's complaint")
        self._guard = guarding(self._unpacker, self._room.floor, self._full)

    async def _finish(self) -> None:
        try:
            answer = await self._report()
        except ForgeError as error:
            self._refuse(error.reason)
        except OSError as error:
            self._refuse(f"the host could not take it: {error.strerror}")
        else:
            self._say(answer)

    async def _report(self) -> bytes:
        if self._asked is None:
            if self._lines or self._packets.rest:
                raise ForgeError("this push ended in its middle")
            return b""
        failure = await self._unpacked()
        if failure is not None:
            refs = {update.ref: "unpacker error" for update in self._asked.updates}
            return self._told(failure) + packets.report(self._asked, refs, f"the pack was not taken: {failure}")
        ran = await self._hand(self._asked, self._room.folder)
        failures, said = outcome(self._asked, ran)
        return self._told(said) + packets.report(self._asked, failures)

    async def _unpacked(self) -> str | None:
        """Why the pack was not taken; None when it was, or there was none."""
        if self._unpacker is None:
            return None if self._head or (self._asked and not self._asked.brings) else "it ended in its middle"
        assert self._unpacker.stdin is not None
        assert self._unpacker.stdout is not None
        assert self._complaint is not None
        self._unpacker.stdin.close()
        await self._unpacker.stdout.read()
        code = await self._unpacker.wait()
        said = shown((await self._complaint).decode("utf-8", "replace"))
        if code and self._full.is_set():
            return FULL
        if code and LEANS in said:
            return f"{LEANS_MEND} ({said})"
        return (said or f"git ended with code {code}") if code else None

    def _told(self, text: str) -> bytes:
        if not text or self._asked is None or "side-band-64k" not in self._asked.able:
            return b""
        return packets.band(2, text.encode().rstrip(b"\n") + b"\n")

    def _refuse(self, reason: str) -> None:
        """End a push that has no report: by the side band, or by the packet that all clients know."""
        if self._asked is not None and "side-band-64k" in self._asked.able:
            self._say(packets.band(3, f"{reason}\n".encode()))
        else:
            self._say(packets.packet(f"ERR {reason}\n".encode()))

    def _say(self, answer: bytes) -> None:
        self._over = True
        if answer:
            self._answer.put_nowait(answer)
        self._answer.put_nowait(None)

    async def drain(self) -> bytes | None:
        try:
            async with asyncio.timeout(KEEP_ALIVE):
                told = await self._answer.get()
        except TimeoutError:
            waiting = self._finishing is not None and self._asked is not None and "side-band-64k" in self._asked.able
            return packets.packet(b"\2") if waiting else b""
        if told is None:
            self._answer.put_nowait(None)  # asked again, it is the end still
        return told

    async def close(self) -> None:
        self._over = True
        if self._finishing is not None:
            self._finishing.cancel()
            await asyncio.wait([self._finishing])
        if self._unpacker is not None:
            await end(self._unpacker)
        for beside in (self._complaint, self._guard):
            if beside is not None:
                beside.cancel()
        await self._room.keeps.aclose()


def quoted(path: Path) -> str:
    """A path as a list of folders of objects has it: it may hold the colon that parts them."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def push_words(asked: Push, url: str) -> list[str]:
    """The words of the `git push` that does what was asked, and nothing else."""
    words = ["push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no"]
    if "atomic" in asked.able:
        words.append("--atomic")
    words += [f"--force-with-lease={one.ref}:{'' if one.creates else one.old}" for one in asked.updates]
    words += ["--", url]
    return words + [f"{'' if one.deletes else one.new}:{one.ref}" for one in asked.updates]


_RESULT = re.compile(r"([ +\-*=!t])\t[^\t]*:(refs/[^\t]+)\t(.*)")
_REASON = re.compile(r"\[(.*?)\](?: \((.*)\))?")


def outcome(asked: Push, ran: Ran) -> tuple[Mapping[str, str], str]:
    """Why each ref that failed did, and what a person is to read, from a run of `git push --porcelain`."""
    done: set[str] = set()
    failures: dict[str, str] = {}
    for line in ran.text.split("\n"):
        if (found := _RESULT.fullmatch(line)) is None:
            continue
        if found[1] != "!":
            done.add(found[2])
        else:
            failures[found[2]] = _reason(found[3])
    remote = [line.removeprefix("remote:").strip() for line in ran.err.splitlines() if line.startswith("remote:")]
    for update in asked.updates:
        if update.ref not in done and update.ref not in failures:
            failures[update.ref] = shown(ran.err) or "the origin did not take it"
    mends = [f"{ref}: {mend}" for ref, reason in failures.items() if (mend := _mend(reason)) is not None]
    return failures, "\n".join([*remote, *mends])


def _reason(text: str) -> str:
    found = _REASON.search(text)
    return (found[2] or found[1]) if found else text


def _mend(reason: str) -> str | None:
    return next((mend for said, mend in MENDS if said in reason), None)
