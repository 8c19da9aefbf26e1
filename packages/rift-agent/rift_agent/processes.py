"""Which processes of the jail belong to a command, told from /proc on the host's side, never from what the jail says.

A command owns the session of its shell, everything that descends from them, and everything whose environment carries
its RIFT_COMMAND (a double fork into a session of its own is still found by that). It never owns the init, another open
command's session, or what descends from one.
"""

from __future__ import annotations

import os
import signal
from select import POLLIN, poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

ENVIRON_LIMIT = 1 << 21


class Process:
    """One process: host numbers, its state letter, `inner` its number in the jail, `tag` the value of its RIFT_COMMAND
    or "".
    """

    __slots__ = ("inner", "parent", "pid", "session", "started", "state", "tag")

    def __init__(self, pid: int, parent: int, session: int, state: str = "S", tag: str = "", inner: int = 0,
                 started: int = 0) -> None:  # fmt: skip
        self.pid = pid
        self.parent = parent
        self.session = session
        self.state = state
        self.tag = tag
        self.inner = inner
        self.started = started

    @property
    def alive(self) -> bool:
        """Whether it can still do anything."""
        return self.state not in "ZXx"


def select(processes: Iterable[Process], init: int, root: int, tag: str, others: Iterable[int]) -> set[int]:
    """The host numbers of the processes that belong to a command.

    `init` is the host number of the jail's process 1, `root` the command's shell's (0 when it is not known), `tag` its
    RIFT_COMMAND, `others` the shells of the other open commands.
    """
    everyone = {process.pid: process for process in processes}
    children: dict[int, list[int]] = {}
    for process in everyone.values():
        children.setdefault(process.parent, []).append(process.pid)
    foreign = set(others) - {root}

    def closure(seeds: Iterable[int], barred: set[int]) -> set[int]:
        found: set[int] = set()
        waiting = [pid for pid in seeds if pid not in barred]
        while waiting:
            pid = waiting.pop()
            if pid not in found:
                found.add(pid)
                waiting += [child for child in children.get(pid, ()) if child not in barred]
        return found

    def session_of(leaders: set[int]) -> set[int]:
        return {p.pid for p in everyone.values() if p.session in leaders or p.pid in leaders}

    protected = {init} | closure(session_of(foreign), {init})
    mine = session_of({root}) if root else set()
    mine |= {p.pid for p in everyone.values() if p.tag == tag}
    return {pid for pid in closure(mine, protected) if pid in everyone}


class Jail:
    """The processes of one jail, known by the pid namespace of its process 1, whose host number is `init`."""

    def __init__(self, init: int) -> None:
        self.init = init
        self.namespace = os.readlink(f"/proc/{init}/ns/pid")
        self._first = os.pidfd_open(init)

    def processes(self, tags: bool = True) -> list[Process]:
        """Everyone in it now, process 1 included; `tags` also reads their environments."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                process = self._look(int(name), tags)
                if process:
                    found.append(process)
        return found

    def kill(self) -> None:
        """Ends process 1, and so everyone. Waits until they are gone."""
        try:
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        except ProcessLookupError:
            return
        gone = poll()
        gone.register(self._first, POLLIN)  # readable once the kernel has ended the whole namespace
        gone.poll()

    def signal(self, process: Process, number: int) -> None:
        """Signals it if it is still that process. Never raises for one that is gone."""
        try:
            handle = os.pidfd_open(process.pid)
        except OSError:
            return
        try:
            # Opened first, looked at second: a number used again meanwhile has another beginning.
            now = self._look(process.pid, tags=False)
            if now and now.started == process.started:
                signal.pidfd_send_signal(handle, number)
        except OSError:
            pass
        finally:
            os.close(handle)

    def _look(self, pid: int, tags: bool) -> Process | None:
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != self.namespace:
                return None
            fields = _read(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
            status = _read(f"/proc/{pid}/status", 8192)
            inner = int(status.partition(b"\nNSpid:")[2].partition(b"\n")[0].split()[-1])
            state = fields[0].decode()
            if state == "Z" and int(fields[17]) > 1:
                state = "z"  # ours: its first thread has ended, others have not
        except (OSError, IndexError, ValueError):
            return None
        tag = _tag(pid) if tags else ""
        return Process(pid, int(fields[1]), int(fields[3]), state, tag, inner, int(fields[19]))


def _tag(pid: int) -> str:
    """Its RIFT_COMMAND, or "" where it has none or hides its environment (such a one is found by its session)."""
    try:
        environ = _read(f"/proc/{pid}/environ", ENVIRON_LIMIT)
    except OSError:
        return ""
    _, found, rest = (b"\0" + environ).partition(b"\0RIFT_COMMAND=")
    return rest.partition(b"\0")[0].decode("utf-8", "replace") if found else ""


def _read(path: str, limit: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while limit > 0:
            part = os.read(fd, min(limit, 65536))
            if not part:
                break
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)
