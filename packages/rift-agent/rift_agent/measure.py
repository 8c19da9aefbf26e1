"""How much a box holds: a program of its own, so that a million files cost the agent nothing.

`measure <folder> <bytes> <files> <init>` prints the bytes and the number of files in the folder, and ends where
either is passed; and 1 where folders are nested too deep to be counted, else 0. Files that were removed while a
process of the jail, known by its `init`, still has them open are counted too. The folder's owner, who runs this, may
have closed folders to themself: those are opened up meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat

from rift_agent.disk import DEEPEST  # folders deeper in folders cannot be looked at, and are told as too much

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512


class TooMuch(Exception):
    """A limit was passed: there is no need to look further."""


class Measure:
    """What was counted so far."""

    def __init__(self, most_bytes: int, most_files: int) -> None:
        self.bytes = 0
        self.files = 0
        self.deep = False
        self._most = (most_bytes, most_files)
        self._linked: set[tuple[int, int]] = set()  # files of several names, or of none, that were counted

    def add(self, found: os.stat_result) -> None:
        """One file. Raises TooMuch."""
        if found.st_nlink != 1 and not stat.S_ISDIR(found.st_mode):
            name = (found.st_dev, found.st_ino)
            if name in self._linked:
                return
            self._linked.add(name)
        self.bytes += found.st_blocks * _BLOCK
        self.files += 1
        if self.bytes > self._most[0] or self.files > self._most[1]:
            raise TooMuch

    def tree(self, folder: str) -> None:
        """Everything in a folder, on its file system alone. Raises TooMuch."""
        top = os.open(folder, _OPEN)
        device = os.fstat(top).st_dev
        # Descriptors, as a name may be another folder a moment later; each with the mode to give back, and what is in.
        stack: list[tuple[int, int | None, list[str]]] = [(top, None, [])]
        try:
            stack[0][2].extend(self._list(top, device))
            while stack:
                fd, _, names = stack[-1]
                if not names:
                    _leave(*stack.pop()[:2])
                    continue
                inner, closed = _enter(names.pop(), fd)
                if inner is None:
                    continue
                stack.append((inner, closed, []))
                if len(stack) > DEEPEST:
                    self.deep = True
                    raise TooMuch
                stack[-1][2].extend(self._list(inner, device))
        finally:
            while stack:
                _leave(*stack.pop()[:2])

    def _list(self, fd: int, device: int) -> list[str]:
        """Counts what is in a folder, and returns its folders."""
        folders = []
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue  # gone meanwhile
                if found.st_dev == device:
                    self.add(found)
                    if stat.S_ISDIR(found.st_mode):
                        folders.append(entry.name)
        return folders

    def removed(self, init: int, device: int) -> None:
        """Files without a name that processes of the jail have open. Raises TooMuch."""
        space = os.readlink(f"/proc/{init}/ns/pid")
        for pid in os.listdir("/proc"):
            try:
                if not pid.isdigit() or os.readlink(f"/proc/{pid}/ns/pid") != space:
                    continue
                for fd in os.listdir(f"/proc/{pid}/fd"):
                    found = os.stat(f"/proc/{pid}/fd/{fd}")
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0 and found.st_dev == device:
                        self.add(found)
            except OSError:
                continue  # gone meanwhile, or it shows nobody what it has


def _enter(name: str, above: int) -> tuple[int | None, int | None]:
    """A folder's descriptor, and the mode to give back to it where it had to be opened up; None where it is gone."""
    try:
        return os.open(name, _OPEN, dir_fd=above), None
    except PermissionError:
        pass
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise
        return None, None  # gone, or no folder any more
    try:
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return None, None
    path = f"/proc/self/fd/{handle}"
    try:
        mode = stat.S_IMODE(os.fstat(handle).st_mode)
        os.chmod(path, mode | 0o700)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), mode
    except OSError:
        return None, None  # another's: an overlay's own
    finally:
        os.close(handle)


def _leave(fd: int, closed: int | None) -> None:
    if closed is not None:
        os.chmod(f"/proc/self/fd/{fd}", closed)
    os.close(fd)


def main(folder: str, most_bytes: int, most_files: int, init: int) -> int:
    """Writes `<bytes> <files> <deep>`. Returns the exit code."""
    import resource

    os.nice(19)
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= least < DEEPEST + 50:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DEEPEST + 50 if most < 0 else min(most, DEEPEST + 50), most))
    measure = Measure(most_bytes, most_files)
    try:
        measure.tree(folder)
        if init:
            measure.removed(init, os.stat(folder).st_dev)
    except TooMuch:
        pass
    os.write(1, b"%d %d %d\n" % (measure.bytes, measure.files, measure.deep))
    return 0
