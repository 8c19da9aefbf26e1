"""The file of an archived month: written once, and checked from itself alone.

gzip over lines of JSON, so that `zcat` and any language read it:

    {"type":"keel.archive","v":1,"month":"2026-10","keys":[…]}          the public keys, each endorsed by the one before
    {"checkpoint":{…}}                                                  a checkpoint that seals records of the month
    {"position":7,"record":"{…}"}                                       a record: the text whose bytes are hashed
    {"position":8,"leaf":"…"}                                           a record of another month: its leaf's hash alone
    …
    {"end":{"month":…,"positions":…,"count":…,"root":…},"key":…,"signature":…}

Every checkpoint comes with all of its leaves, so its root is made anew. The end is signed: a record that was turned
into a mere leaf, or taken out with its checkpoint, does not fit what it says.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from keel.ledger import merkle
from keel.ledger.canonical import Row, entry
from keel.ledger.checkpoint import BadFile, Checkpoint, Signed, read
from keel.ledger.keys import PublicKey, Signer, closure, key_id, read_key, signed_by
from keel.ledger.manifest import TYPE, Content, Positions, content
from keel.ledger.merkle import Growing, leaf_hash
from keel.ledger.proof import Proof, make

LINE_MOST = 16 * 1024 * 1024
"""The most bytes of a line that is read."""
TOLD_MOST = 20

Progress = Callable[[int], None]
"""Told how many records were read or written."""


def name_of(month: str) -> str:
    """What a month's file is called."""
    return f"ledger-{month}.jsonl.gz"


class Writer:
    """Takes a month's checkpoints and records; writes them to a file, or only says what such a file would hold.

    The file is locked until the block ends. Raises BlockingIOError where another one writes it.
    """

    def __init__(self, month: str, path: Path | None, keys: Sequence[PublicKey]) -> None:
        self.month = month
        self._path = path
        self.differs: int | None = None
        """The seq of a record that is not what its leaf says."""
        self._positions, self._tree = Positions(), Growing()
        self._raw: IO[bytes] | None = None
        self._file: gzip.GzipFile | None = None
        if path is not None:
            self._raw = _exclusively(path)
            self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0)
        self._line({"type": TYPE, "v": 1, "month": month, "keys": [key.told() for key in keys]})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in (self._file, self._raw):
            if file is not None:
                file.close()

    def add(self, signed: Signed, leaves: Sequence[tuple[int, int, bytes]], rows: Mapping[int, Row]) -> None:
        """Add a checkpoint with its leaves (position, seq, hash), and those of their rows that are of this month."""
        self._line({"checkpoint": signed.told()})
        for position, seq, leaf in leaves:
            row = rows.get(position)
            if row is None:
                self._line({"position": position, "leaf": leaf.hex()})
            else:
                record = entry(row)
                if leaf_hash(record) != leaf:
                    self.differs = self.differs or seq
                self._positions.add(position)
                self._tree.add(leaf)
                self._line({"position": position, "record": record.decode()})

    def content(self) -> Content:
        """What was added."""
        return Content(self.month, str(self._positions), self._tree.size, self._tree.root())

    def end(self, signer: Signer) -> None:
        """Sign the end, and have all of it on disk."""
        made, key = self.content(), signer.key.id
        self._line({"end": made.told(), "key": key, "signature": signer.sign(made.body(key)).hex()})
        if self._file is not None and self._raw is not None:
            self._file.close()
            self._raw.flush()
            os.fsync(self._raw.fileno())

    def _line(self, told: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


@dataclass(slots=True)
class Checked:
    """What a check of a file found. `content` and `key` are what its signed end says."""

    content: Content
    key: str
    sha256: bytes
    checkpoints: int = 0
    records: int = 0
    problems: list[str] = field(default_factory=list)
    more: int = 0

    def bad(self, sentence: str) -> None:
        """Note what is wrong."""
        if len(self.problems) < TOLD_MOST:
            self.problems.append(sentence)
        else:
            self.more += 1


@dataclass(slots=True)
class _Tree:
    """A checkpoint of the file with its leaves: position, the record's text or None, the leaf's hash."""

    signed: Signed
    leaves: list[tuple[int, str | None, bytes]] = field(default_factory=list)


class _Reader:
    """The file's parts in their order. Raises BadFile."""

    def __init__(self, lines: Iterator[Mapping[str, Any]]) -> None:
        self._lines = lines
        head = next(lines, {})
        if head.get("type") != TYPE or head.get("v") != 1:
            raise BadFile("it is no archive of a ledger")
        try:
            self.month = str(head["month"])
            self.keys = {key.id: key for key in map(read_key, head["keys"]) if key.id == key_id(key.public)}
        except (KeyError, TypeError, ValueError):
            raise BadFile("it does not begin as an archive does") from None
        self.end: Mapping[str, Any] | None = None

    def trees(self) -> Iterator[_Tree]:
        tree: _Tree | None = None
        for line in self._lines:
            if self.end is not None:
                raise BadFile("it goes on after its end")
            if "position" in line and tree is not None:
                tree.leaves.append(_leaf(line))
                continue
            if tree is not None:
                yield tree
                tree = None
            if "checkpoint" in line:
                tree = _Tree(read(line["checkpoint"]))
            elif "end" in line:
                self.end = line
            else:
                raise BadFile("it has a line that belongs to no archive")
        if self.end is None:
            raise BadFile("its end is missing")


def _exclusively(path: Path) -> IO[bytes]:
    """A file to be written anew by nobody else. One that had its final name by the time of the lock is left alone."""
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists() or path.stat().st_ino != os.fstat(file.fileno()).st_ino:
            raise BlockingIOError
        file.truncate()
    except BaseException:
        file.close()
        raise
    return file


def check(path: Path, trusted: Mapping[str, PublicKey] | None = None, progress: Progress | None = None) -> Checked:
    """Check a file from itself alone: every record in the tree that a signed checkpoint has the root of.

    `trusted` are keys known from elsewhere, which vouch for those in the file; None believes the file's own. Raises
    BadFile where it is no whole archive.
    """
    with _opened(path) as (file, digest):
        reader = _Reader(_lines(file))
        trees = reader.trees()
        keys = reader.keys if trusted is None else closure(reader.keys, trusted)
        positions, whole = Positions(), Growing()
        done = Checked(Content(reader.month, "", 0, merkle.EMPTY), "", digest)
        before: Checkpoint | None = None
        for tree in trees:
            _check_tree(done, tree, before, keys)
            before = tree.signed.checkpoint
            for position, record, leaf in tree.leaves:
                if record is not None:
                    _check_record(done, position, record)
                    _add(positions, position)
                    whole.add(leaf)
            done.checkpoints += 1
            done.records = whole.size
            if progress:
                progress(done.records)
        _check_end(done, reader, Content(reader.month, str(positions), whole.size, whole.root()), keys)
    return done


def prove(path: Path, seq: int) -> Proof | None:
    """The proof of a record that is in a file; None where it is not. Raises BadFile."""
    with _opened(path) as (file, _):
        reader = _Reader(_lines(file))
        for tree in reader.trees():
            for index, (_, record, _) in enumerate(tree.leaves):
                if record is not None and _told(record).get("seq") == seq:
                    key = reader.keys.get(tree.signed.checkpoint.key)
                    if key is None:
                        raise BadFile("it lacks the key of a checkpoint")
                    leaves = [leaf for _, _, leaf in tree.leaves]
                    return make(record.encode(), leaves, index, tree.signed, key.public)
    return None


def sha256_of(path: Path) -> bytes:
    """The SHA-256 of a file as it lies there."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").digest()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[gzip.GzipFile, bytes]]:
    """The lines of a file, and the SHA-256 of it as it lies there. Raises BadFile where it cannot be read."""
    try:
        with path.open("rb") as raw:
            digest = file_digest(raw, "sha256").digest()
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) as file:
                yield file, digest
    except OSError as error:
        raise BadFile(f"it cannot be read: {error.strerror or 'it is no gzip file'}") from None


def _check_tree(done: Checked, tree: _Tree, before: Checkpoint | None, keys: Mapping[str, PublicKey]) -> None:
    one = tree.signed.checkpoint
    key = keys.get(one.key)
    if key is None:
        done.bad(f"checkpoint {one.number} is signed with the key {one.key}, which nobody vouches for")
    elif not signed_by(key.public, tree.signed.signature, one.body):
        done.bad(f"the signature under checkpoint {one.number} is wrong")
    if before is not None:
        if one.number <= before.number:
            done.bad(f"checkpoint {one.number} stands behind checkpoint {before.number}")
        elif one.number == before.number + 1 and one.previous != before.hash:
            done.bad(f"checkpoint {one.number} does not name the checkpoint before it as it is")
    if [position for position, _, _ in tree.leaves] != list(range(one.first, one.first + len(tree.leaves))):
        done.bad(f"the leaves of checkpoint {one.number} are not in their places")
    elif len(tree.leaves) != one.size or merkle.root([leaf for _, _, leaf in tree.leaves]) != one.root:
        done.bad(f"the root of checkpoint {one.number} is not that of its records")


def _check_record(done: Checked, position: int, record: str) -> None:
    at = str(_told(record).get("at"))
    if at[:7] != done.content.month:
        done.bad(f"the record at position {position} is not of {done.content.month}")


def _add(positions: Positions, position: int) -> None:
    try:
        positions.add(position)
    except ValueError:
        raise BadFile("its positions are not in order") from None


def _check_end(done: Checked, reader: _Reader, found: Content, keys: Mapping[str, PublicKey]) -> None:
    assert reader.end is not None  # the reader has come to it
    try:
        said, done.key = content(reader.end["end"]), str(reader.end["key"])
        signature = bytes.fromhex(reader.end["signature"])
    except (KeyError, TypeError, ValueError) as error:
        raise error if isinstance(error, BadFile) else BadFile("its end is not whole") from None
    done.content = said
    if said != found:
        done.bad(f"it holds {found.count} records, and they are not the {said.count} that its end tells of")
    key = keys.get(done.key)
    if key is None:
        done.bad(f"its end is signed with the key {done.key}, which nobody vouches for")
    elif not signed_by(key.public, signature, said.body(done.key)):
        done.bad("the signature under its end is wrong")


def _leaf(line: Mapping[str, Any]) -> tuple[int, str | None, bytes]:
    try:
        position, record = line["position"], line.get("record")
        if not isinstance(position, int) or isinstance(position, bool):
            raise TypeError
        if record is None:
            leaf = bytes.fromhex(line["leaf"])
            if len(leaf) != 32:
                raise ValueError
            return position, None, leaf
        return position, record, leaf_hash(record.encode())
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadFile("a line of it is no record and no leaf") from None


def _told(record: str) -> Mapping[str, Any]:
    try:
        told = json.loads(record)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, Mapping):
        raise BadFile("a record of it is no JSON object")
    return told


def _lines(file: gzip.GzipFile) -> Iterator[Mapping[str, Any]]:
    while True:
        try:
            line = file.readline(LINE_MOST)
        except (OSError, EOFError, zlib.error):
            raise BadFile("it is damaged, or cut short") from None
        if not line:
            return
        try:
            told = json.loads(line) if line.endswith(b"\n") else None
            if b"\\ud" in line.lower():  # halves of pairs, of which no bytes can be made
                json.dumps(told, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, Mapping):
            raise BadFile("a line of it is no JSON object")
        yield told
