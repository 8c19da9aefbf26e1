"""The host's process table, as far as it concerns boxes."""

# These walk every process of the host: plain strings are several times quicker than paths.
# ruff: noqa: PTH115, PTH116, PTH123, PTH208

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rift.drivers.boxes.local.mounts import HOME
from rift.drivers.boxes.local.places import BoxDir
from rift.drivers.boxes.protocol import DriverError
from rift_agent.network import PIDFILE


def agents(box: BoxDir) -> list[int]:
    """The processes that are this box's agent, by their command line: whoever else takes it ends with the box too."""
    wanted = os.fsencode(box.settings)
    return [pid for pid in _pids() if _is_agent(pid, wanted, box.uid)]


def agent_of(box: BoxDir) -> int | None:
    """The box's agent, looked up by its pid file first, as walking all processes takes a while."""
    with suppress(OSError, ValueError):
        descriptor = os.open(box.path / "agent.pid", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            pid = int(file.read(32) or b"")  # None from a pipe that somebody holds open
        if _is_agent(pid, os.fsencode(box.settings), box.uid):
            return pid
    found = agents(box)
    return found[0] if found else None


def agents_below(folder: Path) -> dict[str, int]:
    """How many agents each box has whose folder is, or was, in this one: by their command lines."""
    found: dict[str, int] = {}
    start, end = os.fsencode(folder) + b"/", b"/agent.json"
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            for word in file.read().split(b"\0"):
                box = word[len(start) : -len(end)]
                if word.startswith(start) and word.endswith(end) and b"/" not in box and _is_outside(pid):
                    found[os.fsdecode(box)] = found.get(os.fsdecode(box), 0) + 1
    return found


def kill_agents(settings: Path) -> None:
    """End the agents of a box whose folder is gone, and with each its jail: nothing else tells whose they are."""
    wanted = os.fsencode(settings)
    for pid in _pids():
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
            if wanted in words and b"run" in words and _is_outside(pid):
                _kill(pid)


def alive(pid: int, box: BoxDir) -> bool:
    """Whether a process that was just started for the box is still there. Its command line is no help yet: for a moment
    in every exec it is empty.
    """
    return _uid(pid) == (os.geteuid() if box.uid is None else box.uid)


def all_processes(box: BoxDir) -> list[int]:
    """Every process that belongs to the box: agent, jail, and what a crash left of them.

    Its uid alone does not tell, as another Rift on this host may have given the same one to a box of its own.
    """
    owner, mine, inside = os.geteuid() if box.uid is None else box.uid, os.getpid(), os.fsencode(box.path)
    try:
        home = os.stat(box.path / "home")
    except OSError:
        home = None
    return [pid for pid in _pids() if pid != mine and _uid(pid) == owner and _lives_in(pid, inside, home)]


def living_uids() -> set[int]:
    """The uids of all processes of this host."""
    return {uid for uid in map(_uid, _pids()) if uid is not None}


async def end_all(box: BoxDir, *, seconds: float) -> None:
    """Kill every process of the box and wait until none is left. Raises DriverError after `seconds`."""
    left: list[int] = []
    try:
        async with asyncio.timeout(seconds):
            while left := await asyncio.to_thread(all_processes, box):
                for pid in left:
                    _kill(pid)
                await asyncio.sleep(0.01)
    except TimeoutError as error:
        raise DriverError(f"Processes of box {box.path.name} do not end: {', '.join(map(str, left))}.") from error


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _thaw(pid)


def _thaw(pid: int) -> None:
    """A process in a frozen cgroup of the first kind does not even die; thaw it."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if "freezer" in kinds.split(",") and path != "/":
                Path(f"/sys/fs/cgroup/freezer{path}/freezer.state").write_text("THAWED")


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _uid(pid: int) -> int | None:
    """The real uid of a living process; None for a zombie, which only waits to be noticed by its parent."""
    fields = _status(pid)
    return int(fields[b"Uid"].split()[0]) if fields else None


def _is_outside(pid: int) -> bool:
    """Whether a living process is in no jail: in one, anybody gives their process whatever command line they like."""
    depths = [len(_status(one).get(b"NSpid", b"").split()) for one in (pid, "self")]
    return depths[0] == depths[1]


def _status(pid: int | str) -> dict[bytes, bytes]:
    """The fields of a living process; none of a zombie, or of one that is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
    except OSError:
        return {}
    return {} if fields.get(b"State", b"").strip()[:1] in (b"Z", b"X") else fields


def _is_agent(pid: int, settings: bytes, uid: int | None) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    if settings not in words or b"run" not in words or not _is_outside(pid):
        return False
    return _uid(pid) == (os.geteuid() if uid is None else uid)


def _is_pasta(pid: int, below: bytes) -> bool:
    """Whether it carries that box's packets: it stands in no folder of a box, but was told where to put its number."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
        return b"pasta" in words[0] and below + PIDFILE.encode() in words
    return False


def _lives_in(pid: int, folder: bytes, home: os.stat_result | None) -> bool:
    """Whether a process was started for the folder, stands in it, or has its `home` for the jail's.

    In a jail its home alone tells: the rest is what whoever works there says, and could say of another box.
    """
    if not _is_outside(pid):
        with suppress(OSError):
            return home is not None and os.path.samestat(os.stat(f"/proc/{pid}/root{HOME}"), home)
        return False
    below = folder + b"/"
    if _is_pasta(pid, below):
        return True
    with suppress(OSError):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        if b"run" in words and below + b"agent.json" in words:
            return True
    with suppress(OSError):
        place = os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
        return place == folder or place.startswith(below)
    return False
