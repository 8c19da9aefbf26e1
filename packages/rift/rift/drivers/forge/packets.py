"""Git's packet lines, and what of its smart protocol we speak ourselves: pure.

A packet is four hex digits of its whole length, then its bytes; `0000` is a flush (gitprotocol-common(5)). What a
client asks of `receive-pack` and how it is answered: gitprotocol-pack(5).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass

FLUSH = b"0000"
HEAD = 4
MOST = 65_520
"""The most bytes of a packet, its length included."""
BAND = 65_515
"""The most bytes that one packet of a side band carries."""
COMMANDS_MOST = 1000
"""Refs of one push."""
COMMANDS_BYTES = 4 << 20
"""What a push may ask before its pack, where its checkout's history ends (`shallow`) included, as `cost` has it."""
TOO_MUCH = "it asks for too much at once"
NAME_MOST = 1000
"""Bytes of a ref's name."""
PACKET_COSTS = 64
"""What a packet counts for at least: two million tiny ones would take far more memory than they have bytes."""
HASHES = {"sha1": 40, "sha256": 64}

_SHALLOW = re.compile(rb"shallow ([0-9a-f]{40}|[0-9a-f]{64})\n?")
_LINE = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([^\0 ]+)")
_REF = re.compile(r"refs/(heads|tags)/[^\s\x00-\x20\x7f~^:?*\[\\]+")


class BadRequest(Exception):
    """What a client sent is none of git's requests; the text says why, and repeats nothing of it."""


def packet(data: bytes) -> bytes:
    """One packet."""
    return b"%04x" % (len(data) + HEAD) + data


def band(number: int, data: bytes) -> bytes:
    """Packets of a side band: 1 is the answer, 2 what a person reads, 3 the error that ends it."""
    return b"".join(packet(bytes([number]) + data[start : start + BAND - 1]) for start in range(0, len(data), BAND - 1))


class Packets:
    """Takes a stream apart as it comes; `rest` is what stands after the flush where `take` was told to stop."""

    def __init__(self) -> None:
        self.rest = b""

    def take(self, data: bytes) -> tuple[list[bytes], bool]:
        """The packets up to the next flush as far as they are here, and whether it has come. Raises BadRequest."""
        self.rest += data
        found, at, ended = [], 0, False
        while len(self.rest) - at >= HEAD:
            size = _size(self.rest[at : at + HEAD])
            if size == 0:
                at, ended = at + HEAD, True
                break
            if not HEAD < size <= MOST:
                raise BadRequest("a packet has a length that none can have")
            if len(self.rest) - at < size:
                break
            found.append(self.rest[at + HEAD : at + size])
            at += size
        self.rest = self.rest[at:]
        return found, ended


def _size(digits: bytes) -> int:
    if not re.fullmatch(rb"[0-9a-fA-F]{4}", digits):
        raise BadRequest("it is not made of git's packets")
    return int(digits, 16)


@dataclass(frozen=True, slots=True)
class Update:
    """One ref of a push: a name of all zeros stands for none, before or after."""

    ref: str
    old: str
    new: str

    @property
    def deletes(self) -> bool:
        return not self.new.strip("0")

    @property
    def creates(self) -> bool:
        return not self.old.strip("0")


@dataclass(frozen=True, slots=True)
class Push:
    """What a client asks of receive-pack, before its pack."""

    updates: tuple[Update, ...]
    able: frozenset[str]
    """What the client can: `report-status`, `side-band-64k`, `atomic`, …"""

    @property
    def brings(self) -> bool:
        """Whether a pack follows: not where everything asked is a removal."""
        return not all(update.deletes for update in self.updates)


def push(lines: Iterable[bytes]) -> Push:
    """The push that its packets before the first flush ask for. Raises BadRequest.

    Where the history of the client's checkout ends (its lines `shallow …`) decides nothing: what counts is whether
    all that its commits lean on is in the pack, or here already.
    """
    updates: dict[str, Update] = {}
    able: frozenset[str] = frozenset()
    for line in lines:
        if _SHALLOW.fullmatch(line):
            continue
        text, _, words = line.partition(b"\0")
        if not updates:
            able = frozenset(words.decode("utf-8", "replace").split())
        update = _update(text.removesuffix(b"\n"))
        if update.ref in updates:
            raise BadRequest("one ref is named twice")
        updates[update.ref] = update
        if len(updates) > COMMANDS_MOST:
            raise BadRequest(f"a push has at most {COMMANDS_MOST} refs")
    return Push(tuple(updates.values()), able)


def _update(text: bytes) -> Update:
    found = _LINE.fullmatch(text)
    if found is None or len(found[1]) != len(found[2]) or len(found[3]) > NAME_MOST:
        raise BadRequest("a ref's update is not written as git writes it")
    try:
        ref = found[3].decode()
    except UnicodeDecodeError:
        raise BadRequest("a ref's name is not UTF-8") from None
    if not plain_ref(ref):
        raise BadRequest("only branches and tags are pushed, by names that git allows")
    return Update(ref, found[1].decode(), found[2].decode())


def plain_ref(ref: str) -> bool:
    """Whether it is the full name of a branch or tag by git's rules (git-check-ref-format(1))."""
    return bool(
        _REF.fullmatch(ref)
        and ".." not in ref
        and "@{" not in ref
        and "//" not in ref
        and not ref.endswith(("/", "."))
        and not any(part.startswith(".") or part.endswith(".lock") for part in ref.split("/"))
    )


def advertised(service: str, refs: Mapping[str, str], able: str, kind: str = "sha1") -> bytes:
    """What `refs` of a service answers in protocol 0: the refs by name, the first with what the server can."""
    lines = [f"{name} {ref}" for ref, name in sorted(refs.items())] or [f"{'0' * HASHES[kind]} capabilities^{{}}"]
    lines[0] += f"\0{able}"
    told = b"".join(packet(line.encode("utf-8", "surrogateescape") + b"\n") for line in lines)
    return packet(f"# service=git-{service}\n".encode()) + FLUSH + told + FLUSH


def report(asked: Push, failures: Mapping[str, str], unpacked: str = "ok") -> bytes:
    """What receive-pack answers a client that wants a report: `failures` are reasons by ref, the rest went well."""
    if "report-status" not in asked.able:
        return FLUSH if "side-band-64k" in asked.able else b""
    lines = [f"unpack {unpacked}"]
    for update in asked.updates:
        reason = failures.get(update.ref)
        lines.append(f"ok {update.ref}" if reason is None else f"ng {update.ref} {reason}")
    told = b"".join(packet(line.replace("\n", " ").encode()[: MOST - HEAD - 1] + b"\n") for line in lines) + FLUSH
    return band(1, told) + FLUSH if "side-band-64k" in asked.able else told


# Bodies as they come, part by part -----------------------------------------------------------------------------------


def cost(lines: Iterable[bytes]) -> int:
    """What packets count for, in bytes."""
    return sum(max(PACKET_COSTS, len(one)) for one in lines)


async def section(packets: Packets, body: AsyncIterator[bytes], most: int = COMMANDS_BYTES) -> list[bytes]:
    """The packets up to the next flush, of at most so many bytes. Raises BadRequest."""
    lines, size = [], 0
    found, ended = packets.take(b"")
    while True:
        lines += found
        size += cost(found)
        if size > most:
            raise BadRequest(TOO_MUCH)
        if ended:
            return lines
        part = await anext(body, b"")
        if not part:
            raise BadRequest("it broke off")
        found, ended = packets.take(part)


async def beginning(parts: AsyncIterator[bytes], most: int) -> bytes:
    """The first bytes of a body."""
    kept = b""
    async for part in parts:
        kept += part
        if len(kept) >= most:
            break
    return kept[:most]


async def once(data: bytes) -> AsyncIterator[bytes]:
    """A body that is here already."""
    if data:
        yield data


async def joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A body whose first bytes were read."""
    if first:
        yield first
    async for part in rest:
        yield part


async def kept_of(parts: AsyncIterator[bytes], kept: bytearray, most: int) -> AsyncIterator[bytes]:
    """The parts as they come, of which the first `most` bytes are kept too."""
    async for part in parts:
        kept += part[: max(0, most - len(kept))]
        yield part
