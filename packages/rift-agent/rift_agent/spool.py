"""Output on the agent's own disk: each command's bytes in a few segment files, so that the oldest can go first.

What is kept of a command is always one run of bytes, `first` up to `size`; whatever is lost is lost from the front.
The segment of command 7 that begins at byte 1048576 is the file `7.1048576`; a later incarnation of the agent reads
the same files.
"""

from __future__ import annotations

import errno
import fcntl
import os
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, TypeVar

    T = TypeVar("T")

TAIL = 8192  # bytes of an output's end that are known whatever the disk says
CHUNK = 1 << 18
SEGMENTS = 16  # a command's limit is this many segments
PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_ALL = 1 << 30
_SPLICE = hasattr(os, "splice")  # CPython 3.10 and newer
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Spool:
    """The output of one command. `first` ≤ `size` are byte offsets; `full`: the disk once had no room for it."""

    __slots__ = ("_fd", "_folder", "_lost", "_segments", "first", "full", "n", "open", "size")

    def __init__(self, folder: str, n: int) -> None:
        self._folder = folder
        self._segments: list[int] = []  # where each begins; the last one grows
        self._fd = -1
        self._lost = b""  # the end of the bytes before `first`, where the disk had no room for them
        self.n = n
        self.first = 0
        self.size = 0
        self.full = False
        self.open = True

    @property
    def kept(self) -> int:
        """Bytes of it on the disk."""
        return self.size - self.first

    def adopt(self, segments: dict[int, int]) -> None:
        """Takes over an older incarnation's files, {where each begins: its length}: the last unbroken run of them."""
        self.open = False
        self._segments = sorted(segments)
        self.size = self._segments[-1] + segments[self._segments[-1]]
        run = self._segments[-1]
        for start in reversed(self._segments[:-1]):
            if start + segments[start] != run:
                break
            run = start
        while self._segments[0] < run:
            self._unlink()
        self.first = run

    def append(self, data: memoryview, segment: int) -> int:
        """Writes what fits of `data` into the current segment, of `segment` bytes at most. Returns how many.

        Raises OSError.
        """
        room = self._room(segment)
        written = os.write(self._fd, data[:room])
        self.size += written
        return written

    def move(self, pipe: int, count: int, segment: int) -> int:
        """The same from a pipe that holds `count` bytes, without their passing through this process."""
        room = self._room(segment)
        moved: int = os.splice(pipe, self._fd, min(room, count))
        self.size += moved
        return moved

    def tail(self) -> bytes:
        """The last TAIL bytes of it."""
        start = max(self.first, self.size - TAIL)
        return (self._lost + self.read(start, TAIL))[-TAIL:] if start == self.first else self.read(start, TAIL)

    def _room(self, segment: int) -> int:
        """Bytes the current segment may still take; a new one is begun where it is full."""
        if not self._segments or self._fd < 0 or self.size - self._segments[-1] >= segment:
            self.close()
            path = self._path(self.size)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            if not self._segments or self._segments[-1] != self.size:
                self._segments.append(self.size)
        return segment - (self.size - self._segments[-1])

    def skip(self, data: memoryview) -> None:
        """Counts bytes there is no room for: all before them goes too, so that what is kept stays one run."""
        self._lost = (self.tail() + bytes(data[-TAIL:]))[-TAIL:]
        self.drop(len(self._segments))
        self.size += len(data)
        self.first = self.size

    def drop(self, count: int = 1) -> None:
        """Removes the oldest `count` segments."""
        for _ in range(min(count, len(self._segments))):
            if len(self._segments) == 1:
                self.close()
            self._unlink()
            self.first = self._segments[0] if self._segments else self.size

    def older(self) -> bool:
        """Whether there is a segment before the one being written."""
        return len(self._segments) > 1

    def read(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from max(offset, first). Empty beyond the end."""
        at, parts = max(offset, self.first), []
        end = min(self.size, at + limit)
        for index, start in enumerate(self._segments):
            stop = self._segments[index + 1] if index + 1 < len(self._segments) else self.size
            if start <= at < min(stop, end):
                part = _pread(self._path(start), at - start, min(stop, end) - at)
                parts.append(part)
                at += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Lets the file go; the bytes stay."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _path(self, start: int) -> str:
        return f"{self._folder}/{self.n}.{start}"

    def _unlink(self) -> None:
        try:
            os.unlink(self._path(self._segments.pop(0)))
        except FileNotFoundError:
            pass


class Spools:
    """All of them. `limit` bounds one command's bytes, `total` everyone's: beyond it whole old commands go first."""

    def __init__(self, folder: str, limit: int, total: int) -> None:
        self._folder = folder
        self._segment = max(1, limit // SEGMENTS)
        self._limit = max(1, limit)
        self._total = total
        self._all: dict[int, Spool] = {}
        self._kept = 0
        self._stage: tuple[int, int] | None = None
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._adopt()

    def new(self, n: int) -> Spool:
        """An empty spool for command `n`, in place of any an older incarnation left."""
        old = self._all.pop(n, None)
        if old:
            self._count(old, partial(old.drop, _ALL))
        spool = self._all[n] = Spool(self._folder, n)
        return spool

    def get(self, n: int) -> Spool | None:
        """Command `n`'s, open or ended, also an older incarnation's."""
        return self._all.get(n)

    def write(self, spool: Spool, data: memoryview) -> None:
        """Appends all of `data`. Never raises: where the disk has no room, the oldest bytes go (`full` says so)."""
        while data:
            try:
                written = self._count(spool, partial(spool.append, data, self._segment))
            except OSError as error:
                if error.errno in _FULL and self._make_room(spool):
                    continue
                spool.full = True
                self._count(spool, partial(spool.skip, data))
                return
            data = data[written:]
            self._trim(spool)

    def fill(self, spool: Spool, pipe: int, limit: int) -> int:
        """Appends up to `limit` bytes of what a pipe holds. Returns how many, 0 at the pipe's end.

        Raises BlockingIOError where the pipe is empty.
        """
        if not _SPLICE:
            data = os.read(pipe, min(limit, CHUNK))
            self.write(spool, memoryview(data))
            return len(data)
        # Through a pipe of our own: pages change hands at once, and the command goes on while they go to the file.
        stage, into = self._stage = self._stage or new_pipe()
        count: int = os.splice(pipe, into, limit, flags=os.SPLICE_F_NONBLOCK)
        left = count
        while left:
            try:
                left -= self._count(spool, partial(spool.move, stage, left, self._segment))
                self._trim(spool)
            except OSError:  # no room, or a file system that does not splice: by hand, then
                data = os.read(stage, min(left, CHUNK))
                self.write(spool, memoryview(data))
                left -= len(data)
        return count

    def end(self, spool: Spool) -> None:
        """No byte comes after this: the command may be dropped whole now."""
        spool.close()
        spool.open = False

    def _trim(self, spool: Spool) -> None:
        while spool.kept > self._limit and spool.older():
            self._count(spool, spool.drop)
        while self._kept > self._total and self._drop_oldest():
            pass

    def _count(self, spool: Spool, change: Callable[[], T]) -> T:
        before = spool.kept
        try:
            return change()
        finally:
            self._kept += spool.kept - before

    def _make_room(self, spool: Spool) -> bool:
        """The disk is full: the oldest ended command goes, else this one's oldest segment."""
        if self._drop_oldest():
            return True
        if spool.older():
            spool.full = True
            self._count(spool, spool.drop)
            return True
        return False

    def _drop_oldest(self) -> bool:
        for spool in self._all.values():
            if not spool.open and spool.kept:
                self._count(spool, partial(spool.drop, _ALL))
                return True
        return False

    def _adopt(self) -> None:
        found: dict[int, dict[int, int]] = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                n, _, start = entry.name.partition(".")
                if n.isdigit() and start.isdigit() and entry.is_file(follow_symlinks=False):
                    found.setdefault(int(n), {})[int(start)] = entry.stat(follow_symlinks=False).st_size
        for number in sorted(found):
            spool = self._all[number] = Spool(self._folder, number)
            spool.adopt(found[number])
            self._kept += spool.kept


def new_pipe() -> tuple[int, int]:
    """A pipe closed on exec, with as much room as this user may have."""
    ends = os.pipe2(os.O_CLOEXEC)
    if not size_pipe(ends[0], PIPE_SIZE):
        size_pipe(ends[0], PIPE_SIZE >> 2)
    return ends


def size_pipe(pipe: int, size: int) -> bool:
    """Gives a pipe room for `size` bytes. False where this user may not have so much, or more is in it already."""
    try:
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, size)
    except OSError:
        return False
    return True


def _pread(path: str, offset: int, count: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, count, offset)
    finally:
        os.close(fd)
