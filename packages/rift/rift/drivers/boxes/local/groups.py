"""The groups of a data folder's boxes: made with their limits, ended, removed. `cgroups` tells where they go.

    version 1   <tree>/rift-<folder>/box-<id>             the jail is in it
    version 2   <tree>/rift-<folder>/box-<id>/jail        the jail, with its limits
                                            /agent        the agent, without: an agent outlives its jail's hunger

The driver makes them; the agent's user may put processes into them, and change nothing of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.boxes.local.cgroups import MAIN, Plan, has_systemd, plan, text_of, words_of
from rift.drivers.boxes.protocol import DriverError, Limits

BOX = "box-"
GONE_LOOKS, LOOK_SECONDS = 1000, 0.005
"""How often, and how long apart, it is looked whether the kernel has let go of a group whose processes were killed."""
V1_FILES = {
    "memory": (("memory.limit_in_bytes", True), ("memory.memsw.limit_in_bytes", False)),  # the second is never less
    "pids": (("pids.max", True),),
    "cpu": (("cpu.shares", True),),
}
"""The files that hold the limits in version 1, and whether a kernel may do without."""


@dataclass(frozen=True, slots=True)
class Made:
    """The groups of one box: `jail`, the folders its jail joins, and `agent`, those the agent is put into."""

    jail: tuple[Path, ...] = ()
    agent: tuple[Path, ...] = ()


class Groups:
    """The groups of a data folder's boxes. All state is in the file system of the cgroups.

    `make` and `remove` are called with one lock for all boxes held: the last box to go takes the folder's group along.
    """

    def __init__(self, found: Plan, data: Path) -> None:
        self.plan = found
        self._name = "rift-" + hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:12]

    def holds(self, controller: str) -> bool:
        """Whether cgroups hold this limit for every box."""
        return self.plan.holds(controller)

    def make(self, box: str, limits: Limits, uid: int | None) -> Made:
        """Make a box's groups with its limits, empty. Raises DriverError naming the group that cannot be made."""
        try:
            self._prepare()
            v1 = [self._make_v1(tree, box, limits, uid) for tree in self._v1_trees()]
            if self.plan.v2 is None:
                return Made(tuple(v1))
            whole = self.plan.v2 / self._name / (BOX + box)
            jail, agent = whole / "jail", whole / "agent"
            for folder in (whole, jail, agent):
                _mkdir(folder)
                if folder != agent:  # who moves a process must be allowed to at both ends, and where they meet
                    _give(folder / "cgroup.procs", uid)
            _offer(whole, self._wanted())
            _set_v2(whole, jail, self._wanted(), limits)
        except OSError as error:
            raise DriverError(f"The box's cgroup {error.filename} cannot be made: {error.strerror}.") from error
        return Made((*v1, jail), (agent,))

    def _make_v1(self, tree: Path, box: str, limits: Limits, uid: int | None) -> Path:
        group = tree / self._name / (BOX + box)
        _mkdir(group)
        values = {"memory": limits.memory, "pids": limits.processes, "cpu": limits.cpu_shares}
        for controller in sorted(name for name, at in self.plan.v1.items() if at == tree):
            for name, needed in V1_FILES[controller]:
                _write(group / name, values[controller], needed=needed)
        _give(group / "tasks", uid)
        return group

    def kill(self, box: str) -> bool:
        """Kill everything in the box's groups; whether anything was there."""
        found = False
        for group in self._of(box):
            if words_of(group / "cgroup.procs") or "populated 1" in text_of(group / "cgroup.events"):
                found = True
                with contextlib.suppress(OSError):  # a kernel before 5.14, or version 1: one by one
                    (group / "cgroup.kill").write_text("1")
            for inner in (group, group / "jail", group / "agent"):
                for pid in map(int, words_of(inner / "cgroup.procs")):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        return found

    async def remove(self, box: str) -> None:
        """Remove the box's groups, whose processes are gone or going. Raises DriverError when one stays."""
        for group in self._of(box):
            for inner in (group / "jail", group / "agent", group):
                await _rmdir(inner)
        for top in self._tops():  # each, also where a removal that was cut short took the box's group alone
            with contextlib.suppress(OSError):  # it is not there, or other boxes' groups are in it
                top.rmdir()

    def boxes(self) -> list[str]:
        """The ids of all boxes that have a group."""
        names = {path.name for top in self._tops() for path in _entries(top)}
        return sorted(name.removeprefix(BOX) for name in names if name.startswith(BOX))

    def _of(self, box: str) -> list[Path]:
        return [group for top in self._tops() if (group := top / (BOX + box)).is_dir()]

    def _tops(self) -> Iterator[Path]:
        yield from (tree / self._name for tree in self._v1_trees())
        if self.plan.v2 is not None:
            yield self.plan.v2 / self._name

    def _v1_trees(self) -> list[Path]:
        return list(dict.fromkeys(self.plan.v1.values()))

    def _wanted(self) -> list[str]:
        """The controllers that version 2 is to give: those that version 1 has not taken."""
        return sorted(self.plan.v2_controllers - self.plan.v1.keys())

    def _prepare(self) -> None:
        """Have the controllers of version 2 on for groups of boxes. Raises OSError."""
        if self.plan.v2 is None or not self._wanted():
            return
        top = self.plan.v2 / self._name
        if self.plan.crowded and set(self._wanted()) - set(words_of(self.plan.v2 / "cgroup.subtree_control")):
            self._move_out(self.plan.v2)
        _offer(self.plan.v2, self._wanted())
        _mkdir(top)
        _offer(top, self._wanted())

    @staticmethod
    def _move_out(group: Path) -> None:
        """Processes that begin meanwhile are found by the next look."""
        main = group / MAIN
        _mkdir(main)
        for _ in range(20):
            pids = words_of(group / "cgroup.procs")
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (main / "cgroup.procs").write_text(pid)
        raise OSError(errno.EBUSY, "processes keep coming into it", str(group))


def find(data: Path) -> Groups:
    """The groups of a data folder's boxes on this host."""
    proc = Path("/proc/self")
    found = plan(
        text_of(proc / "mountinfo"),
        text_of(proc / "cgroup"),
        root=os.geteuid() == 0,
        systemd=has_systemd(),
    )
    return Groups(found, data)


def entry(group: Path) -> Path:
    """The file by which a single process joins a group."""
    return group / ("tasks" if (group / "tasks").exists() else "cgroup.procs")


def weight(shares: int) -> int:
    """Version 2's weight for version 1's shares: what is usual is 100 there and 1024 here."""
    return max(1, min(10_000, round(shares * 100 / 1024)))


def _set_v2(whole: Path, jail: Path, controllers: Sequence[str], limits: Limits) -> None:
    if "memory" in controllers:
        _write(jail / "memory.max", limits.memory, needed=True)
        _write(jail / "memory.swap.max", 0)
    if "pids" in controllers:
        _write(jail / "pids.max", limits.processes, needed=True)
    if "cpu" in controllers:
        _write(whole / "cpu.weight", weight(limits.cpu_shares))


def _offer(group: Path, controllers: Sequence[str]) -> None:
    """Let a group's groups have these controllers."""
    lacking = set(controllers) - set(words_of(group / "cgroup.subtree_control"))
    if lacking:
        _raw(group / "cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(lacking)))


def _write(path: Path, value: int, *, needed: bool = False) -> None:
    """A limit's value. One that this tree or kernel has no file for is left out, unless the limit hangs on it."""
    if needed or path.exists():
        _raw(path, str(value))


def _raw(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # a failed write does not say where


def _mkdir(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


async def _rmdir(group: Path) -> None:
    for look in range(GONE_LOOKS):
        try:
            await asyncio.to_thread(group.rmdir)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or look == GONE_LOOKS - 1:
                raise DriverError(f"The cgroup {group} cannot be removed: {error.strerror}.") from error
        await asyncio.sleep(LOOK_SECONDS)


def _give(path: Path, uid: int | None) -> None:
    if uid is not None:
        os.chown(path, uid, -1)


def _entries(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_dir()]
    except OSError:
        return []
