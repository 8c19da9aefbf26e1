"""Where a process can be killed: found by the code that runs, not by a list of ours.

Loaded into a process of Rift (server, launcher, agent, init) by the test that composes it, this puts itself around
what the operating system offers to change the world: files made, written, moved, removed; processes started, signalled;
messages and requests sent; transactions committed. Each such effect that code of ours causes is two boundaries, one
before it and one after, named by the process, the operation (a job, a tool) and the function it happens in:

    park | server | rift_vm_suspend | boxes.actions.suspend | commit | after

Every boundary that is reached is recorded. The one that the control file names ends its process there, as kill -9 does.
A new effect in any function is in the next recording without anybody's having thought of it.

Standard library only, CPython >= 3.9: it is loaded into agents and launchers too.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

KEPT_COUNTS = 2
"""The same effect of the same function in one operation is counted up to here; the rest is like the last."""

CHANGES = (
    *("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link", "symlink", "truncate", "ftruncate"),
    *("chmod", "fchmod", "chown", "fchown", "lchown", "kill", "killpg", "fork", "posix_spawn", "splice", "sync"),
)
"""What of `os` changes the world, besides `open` and `write`, which do so only sometimes."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_THIS = sys._getframe().f_code.co_filename


class Points:
    """The boundaries of one process. `folder` holds `points` (the record) and `control` (the phase, then the target).

    `roots` are the folders and archives whose code is ours; `operation` tells what the code is about, and counts.
    """

    def __init__(self, process: str, record: int, control: int, roots: tuple[str, ...]) -> None:
        self.process = process
        self._record = record
        self._control = control
        self._roots = roots
        self._seen: set[str] = set()
        self._counts: dict[str, int] = {}
        self.operation: Callable[[], tuple[str, dict[str, int], bool]] = lambda: ("", self._counts, False)
        self._write, self._pread, self._kill, self._truncate = os.write, os.pread, os.kill, os.ftruncate
        self._fstat = os.fstat

    @classmethod
    def at(cls, process: str, folder: str, roots: tuple[str, ...]) -> Points:
        """With the files in a folder."""
        record = os.open(os.path.join(folder, "points"), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        control = os.open(os.path.join(folder, "control"), os.O_RDWR | os.O_CLOEXEC)
        return cls(process, record, control, roots)

    def reach(self, where: str, effect: str, count: int, moment: str) -> None:
        """This boundary is reached: note it, and end here if it is the one."""
        phase, _, target = self._pread(self._control, 1000, 0).decode().partition("\n")
        operation, _, periodic = self.operation()
        times = f" {count}" if count > 1 else ""
        name = f"{'*' if periodic else phase} | {self.process} | {operation} | {where} | {effect}{times} | {moment}"
        if name not in self._seen:
            self._seen.add(name)
            self._write(self._record, f"{phase}\t{name}\n".encode())
        if name == target:
            self._truncate(self._control, len(phase.encode()) + 1)
            self._write(self._record, f"KILLED {name}\n".encode())
            self._kill(os.getpid(), signal.SIGKILL)

    def begin(self, where: str, effect: str) -> int:
        """How often this operation came here, and its boundary before."""
        _, counts, _ = self.operation()
        key = f"{where} {effect}"
        count = counts[key] = min(counts.get(key, 0) + 1, KEPT_COUNTS)
        self.reach(where, effect, count, "before")
        return count

    def around(self, effect: str, call: Callable[..., Any], where: str = "") -> Callable[..., Any]:
        """The function with a boundary before and after each call that our code makes."""

        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            place = where or self.place(sys._getframe(1))
            if not place:
                return call(*args, **kwargs)
            count, forked = self.begin(place, effect), False
            try:
                result = call(*args, **kwargs)
                forked = effect == "os.fork" and result == 0
                return result
            finally:
                if not forked:
                    self.reach(place, effect, count, "after")

        return watched

    def place(self, frame: FrameType | None) -> str:
        """The function of ours that caused this, through the standard library only; "" where nobody of ours did."""
        while frame is not None:
            file = frame.f_code.co_filename
            root = next((root for root in self._roots if file.startswith(root)), None)
            if root is not None and file != _THIS:
                module = file[len(root) :].strip("/").rpartition(".")[0].replace("/", ".")
                return f"{module}.{getattr(frame.f_code, 'co_qualname', frame.f_code.co_name)}"
            if "site-packages" in file:
                return ""
            frame = frame.f_back
        return ""

    def watch_system(self) -> None:
        """Put boundaries around what `os` and `open` change."""
        for name in CHANGES:
            if hasattr(os, name):
                put(os, name, self.around(f"os.{name}", getattr(os, name)))
        if hasattr(signal, "pidfd_send_signal"):
            put(signal, "pidfd_send_signal", self.around("pidfd_send_signal", signal.pidfd_send_signal))
        opened, written, file_opened = os.open, os.write, builtins.open
        watched_open, watched_write = self.around("os.open", opened), self.around("os.write", written)
        watched_file = self.around("open", file_opened)

        def os_open(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            return (watched_open if flags & _WRITES else opened)(path, flags, *args, **kwargs)

        def os_write(fd: int, data: Any) -> int:
            regular = (self._fstat(fd).st_mode & 0o170000) == 0o100000
            return (watched_write if regular else written)(fd, data)

        def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            changes = isinstance(file, (str, bytes, os.PathLike)) and any(letter in mode for letter in "wax+")
            return (watched_file if changes else file_opened)(file, mode, *args, **kwargs)

        os.open, os.write = os_open, os_write
        put(builtins, "open", open_file)
        put(io, "open", open_file)

    def watch_programs(self) -> None:
        """Put boundaries around programs that are started."""
        import subprocess

        put(subprocess, "run", self.around("run", subprocess.run))
        put(subprocess.Popen, "__init__", self.around("start", subprocess.Popen.__init__))


def put(where: Any, name: str, value: Any) -> None:
    """Put a function in another one's place."""
    setattr(where, name, value)


def watch_launcher(folder: str, root: str) -> None:
    """In the launcher, before it begins."""
    points = Points.at("launcher", folder, (root,))
    points.watch_system()
    points.watch_programs()


def watch_agent(root: str) -> None:
    """In the agent and in the jail's init, which inherits the agent's files, as it sees no others."""
    first = 200  # below every descriptor that a test could have open
    if sys.argv[1:2] == ["init"]:
        for fd in (first, first + 1):
            os.set_inheritable(fd, False)
        points = Points("init", first, first + 1, (root,))
    else:
        data = os.path.join(os.path.dirname(sys.argv[2]), "../..")  # `run <data>/boxes/<box>/agent.json`
        points = Points.at("agent", os.path.join(data, "points"), (root,))
    points.watch_system()
    import rift_agent.messages as messages

    put(messages, "send", points.around("send", messages.send))
    put(messages, "receive", points.around("receive", messages.receive))
    if points.process == "init":
        return
    from rift_agent import control, http, jail, libc

    put(http.Connection, "post", points.around("post", http.Connection.post))
    put(libc, "call", points.around("libc", libc.call))
    put(control, "_reply", points.around("answer", control._reply))
    become = jail._become

    def watched(*words: Any) -> None:
        os.dup2(points._record, first)
        os.dup2(points._control, first + 1)
        become(*words)

    put(jail, "_become", watched)
