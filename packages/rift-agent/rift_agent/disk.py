"""The box's disk limit: a look at the file system's free space every moment while commands run, which costs nothing,
and a count of the box's files, by a program of its own, only when that has fallen or a minute of work has passed.

One file alone never passes the limit (RLIMIT_FSIZE). The sum may, by what is written between two looks.
"""

from __future__ import annotations

import os
import sys
import time

from rift_agent import __main__ as program
from rift_agent.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from rift_agent.config import Config

    Watch = Callable[[int, Callable[[], None]], None]

LOOK, LOOK_IDLE = 0.5, 15.0  # seconds between two looks, with and without an open command
COUNT_AFTER = 60.0  # seconds of looks after which the files are counted though nothing fell
REST = 4.0  # a count is followed by a rest of so many times what it took, so that it takes a fifth of one core at most
PATIENCE = 120.0  # seconds after which a count is given up
DEEPEST = 1000  # folders in folders; `measure` looks no deeper
NOTICEABLE = 16 << 20  # bytes, and
FEW = 2048  # files that are not worth a count, unless the limit is near
SOME = 1 << 20  # bytes that a box over its limit may gain between two counts before everything in it is ended
BYTES_A_FILE = 16384  # a box may have so many files that each has this much of its disk: as file systems are made
_FOREVER = float("inf")


class Space:
    """What was free at one moment, in bytes and in files."""

    __slots__ = ("bytes", "files")

    def __init__(self, folder: str) -> None:
        found = os.statvfs(folder)
        self.bytes: int = found.f_bavail * found.f_frsize
        self.files: int = found.f_favail


class Disk:
    """Looks when `tick` finds it due. `full(grows)` is called at each count over the limit; `grows` is False at the
    first of them, and where the box holds no more than at the last. A count goes on to twice the limit, to tell that.
    """

    def __init__(self, config: Config, archive: str, init: Callable[[], int], watch: Watch,
                 unwatch: Callable[[int], None], full: Callable[[bool], None]) -> None:  # fmt: skip
        limit = config.limits.get("disk")
        self.bytes = limit.value if limit else 0
        self.files = max(1000, self.bytes // BYTES_A_FILE)
        self.due = _FOREVER  # nothing was ever run: nothing was written
        self._folder, self._archive, self._python = config.dir, archive, sys.executable
        self._init, self._watch, self._unwatch, self._full = init, watch, unwatch, full
        self._held: tuple[int, int] | None = None  # bytes and files at the last count
        self._over = False
        self._deep = False
        self._before = self._next = Space(self._folder)  # when that count began, and the one after it
        self._counted = time.monotonic()  # when it ended
        self._cost = 0.0
        self._began = 0.0
        self._child: tuple[int, int] | None = None  # the counting program and our end of its pipe

    def wake(self) -> None:
        """A command starts: look soon."""
        if self.bytes:
            self.due = min(self.due, time.monotonic() + LOOK)

    def rest(self) -> None:
        """The box is parked: nothing is written."""
        self.due = _FOREVER

    def over(self) -> bool:
        """Whether the box holds too much, as far as is known: what became free since the last count is taken off."""
        if not self._over or not self._held:
            return False
        now = Space(self._folder)
        if self._deep:
            return True
        freed = max(0, now.bytes - self._before.bytes), max(0, now.files - self._before.files)
        self._over = self._held[0] - freed[0] > self.bytes or self._held[1] - freed[1] > self.files
        return self._over

    def what(self) -> str:
        """Of what there is too much, where it is not bytes, for a sentence."""
        if self._deep:
            return f": folders are nested deeper than {DEEPEST:,}, where nothing can be counted"
        return f": more than {self.files:,} files" if self._held and self._held[1] > self.files else ""

    def tick(self, now: float, busy: bool) -> float:
        """Does what is due; returns the moment of the next look. `busy`: a command is open."""
        if self._child:
            if now > self._began + PATIENCE:
                say("counting the box's files took too long and was given up")
                self._end(b"")
            self.due = now + 1.0
        elif now >= self.due:
            if self._worth(now) and now >= self._counted + max(LOOK, REST * self._cost):
                self._count(now)
            self.due = now + (LOOK if busy else LOOK_IDLE)
        return self.due

    def _worth(self, now: float) -> bool:
        """Whether so much was written since the last count that the limit may be near."""
        if self._over or now > self._counted + COUNT_AFTER:
            return True
        space = Space(self._folder)
        held = self._held or (self.bytes, self.files)
        room = max(NOTICEABLE, (self.bytes - held[0]) // 2), max(FEW, (self.files - held[1]) // 2)
        if self.bytes < 16 * NOTICEABLE:
            room = min(room[0], self.bytes // 16), room[1]
        return self._before.bytes - space.bytes >= room[0] or self._before.files - space.files >= room[1]

    def _count(self, now: float) -> None:
        self._began, self._next = now, Space(self._folder)
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        words = program.words(self._python, self._archive, "measure", self._folder, str(2 * self.bytes),
                              str(2 * self.files), str(self._init()))  # fmt: skip
        actions = [(os.POSIX_SPAWN_DUP2, theirs, 1)]
        try:
            pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
        except OSError as error:
            say(f"the box's files cannot be counted: {error}")
            os.close(ours)
            self._counted = now
            return
        finally:
            os.close(theirs)
        self._child = (pid, ours)
        self._watch(ours, lambda: self._end(os.read(ours, 256)))

    def _end(self, said: bytes) -> None:
        """The count has ended, or has to."""
        assert self._child
        pid, fd = self._child
        self._child = None
        self._unwatch(fd)
        os.close(fd)
        if not said:
            os.kill(pid, 9)
        os.waitpid(pid, 0)
        self._counted = time.monotonic()
        self._cost = self._counted - self._began
        words = said.split()
        if len(words) != 3:
            say("the box's files could not be counted")
            return
        held = int(words[0]), int(words[1])
        before, self._held, self._before = self._held, held, self._next
        self._deep = words[2] == b"1"
        was, self._over = self._over, self._deep or held[0] > self.bytes or held[1] > self.files
        if self._over:
            grows = was and before is not None and (held[0] > before[0] + SOME or held[1] > before[1] + FEW)
            self._full(grows)
