"""Output on the agent's own disk: each command's bytes in a few segment files, so that the oldest can go first.

What is kept of a command is always one run of bytes, `first` up to `size`; whatever is lost is lost from the front.
The segment of command 7 that begins at byte 1048576 is the file `7.1048576`; a later incarnation of the agent reads
the same files.
"""

from __future__ import annotations

import errno
import os
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, TypeVar

    T = TypeVar("T")

SEGMENTS = 16  # a command's limit is this many segments
_ALL = 1 << 30
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Spool:
    """The output of one command. `first` ≤ `size` are byte offsets; `full` is true once the disk had no room for a
    byte of it.
    """

    __slots__ = ("_fd", "_folder", "_segments", "first", "full", "n", "open", "size")

    def __init__(self, folder: str, n: int) -> None:
        self._folder = folder
        self._segments: list[int] = []  # where each begins; the last one grows
        self._fd = -1
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
        """Takes over files an older incarnation left: {where each begins: its length}. Only the last unbroken run
        counts.
        """
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
        """Writes what fits of `data` into the current segment, of `segment` bytes at most. Returns how many. Raises
        OSError.
        """
        if not self._segments or self._fd < 0 or self.size - self._segments[-1] >= segment:
            self.close()
            path = self._path(self.size)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            if not self._segments or self._segments[-1] != self.size:
                self._segments.append(self.size)
        room = segment - (self.size - self._segments[-1])
        written = os.write(self._fd, data[:room])
        self.size += written
        return written

    def skip(self, count: int) -> None:
        """Counts `count` bytes that are nowhere: all before them goes too, so that what is kept stays one run."""
        self.drop(len(self._segments))
        self.size += count
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
    """All of them. `limit` bounds one command's bytes, `total` everyone's; beyond it whole old commands go, the oldest
    first.
    """

    def __init__(self, folder: str, limit: int, total: int) -> None:
        self._folder = folder
        self._segment = max(1, limit // SEGMENTS)
        self._limit = max(1, limit)
        self._total = total
        self._all: dict[int, Spool] = {}
        self._kept = 0
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
        """Appends all of `data`. Never raises, never blocks for room: where the disk has none, the oldest bytes go
        (`full` says so).
        """
        while data:
            try:
                written = self._count(spool, partial(spool.append, data, self._segment))
            except OSError as error:
                if error.errno in _FULL and self._make_room(spool):
                    continue
                spool.full = True
                self._count(spool, partial(spool.skip, len(data)))
                return
            data = data[written:]
            while spool.kept > self._limit and spool.older():
                self._count(spool, spool.drop)
            while self._kept > self._total and self._drop_oldest():
                pass

    def end(self, spool: Spool) -> None:
        """No byte comes after this: the command may be dropped whole now."""
        spool.close()
        spool.open = False

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


def _pread(path: str, offset: int, count: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, count, offset)
    finally:
        os.close(fd)
