"""What each layer around a box costs: a bare jail, then the same with one more of our walls, in the same run."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from bench.floors import MIRRORS, jail_words, owner
from bench.harness import Row, System, folder, shown, timed
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.local import groups as cgroups
from rift.drivers.boxes.protocol import Limits
from rift.drivers.boxes.remote import RemoteBoxes
from rift.drivers.line import Line, connect
from rift.keeper.checks import Bounds
from rift.keeper.desk import Desk
from rift_agent import seccomp

SAMPLE = "sample/hello"
TURNS = 60
CALLS = 300_000
COUNTING = (
    "import os, time\n"
    "began = time.perf_counter()\n"
    f"for _ in range({CALLS}): os.getppid()\n"
    "print(time.perf_counter() - began)"
)
"""A program that does little but call the kernel; what it takes, in seconds."""


async def layers(system: System) -> list[Row]:
    """A jail's start with and without filter, groups and limits; a call of the kernel; an order through the keeper."""
    client = system.client()
    task = await client.task("layers")
    box = await client.box(task, SAMPLE)
    place = system.box_folder(box)
    rows = []
    async with _groups(system.data, owner(place)) as joined, _scratch() as scratch:
        words = jail_words(place, scratch)
        bare = _starts([*words, "true"], place, [], limited=False)
        beside = f"bare bwrap: {shown(bare)}"
        kinds: tuple[tuple[str, bool, list[Path], bool], ...] = (
            ("its system calls filtered", True, [], False),
            ("in cgroups that hold its limits", False, joined, False),
            ("with resource limits", False, [], True),
            ("all of these", True, joined, True),
        )
        for name, filtered, groups, limited in kinds:
            if name.startswith("in cgroups") and not joined:
                rows.append(Row(f"a jail, {name}", "no cgroups here", beside, None, "told", None))
                continue
            taken = _starts([*words, "true"], place, groups, limited=limited, filtered=filtered)
            ratio = median(taken) / median(bare)
            rows.append(Row(f"a jail, {name}", shown(taken), beside, ratio, "told", None))
        rows.append(_calls(words, place))
    rows.append(await _orders(system, box))
    await client.call("rift_task_close", task=task)
    client.close()
    return rows


@asynccontextmanager
async def _groups(data: Path, uid: int) -> AsyncIterator[list[Path]]:
    """The folders of groups such as a box's, for a moment."""
    made = cgroups.Groups(cgroups.find(data).plan, data / "bench")
    try:
        yield list(made.make("b-bench", Limits(), uid).jail)
    finally:
        await made.remove("b-bench")


@asynccontextmanager
async def _scratch() -> AsyncIterator[Path]:
    with folder() as scratch:
        yield scratch


def _starts(words: list[str], place: Path, groups: list[Path], *, limited: bool, filtered: bool = False) -> list[float]:
    """Seconds of running it to its end, each time."""
    taken = []
    for turn in range(TURNS + 5):
        began = time.perf_counter()
        _run(words, place, groups, limited=limited, filtered=filtered)
        if turn >= 5:
            taken.append(time.perf_counter() - began)
    return taken


def _run(words: list[str], place: Path, groups: list[Path], *, limited: bool = False, filtered: bool = False) -> str:
    """What it printed. It becomes the box's user the way an agent's child does, so that all are started alike."""
    filter = seccomp.descriptor() if filtered else None
    fds = [] if filter is None else [filter]
    options = [] if filter is None else ["--seccomp", str(filter)]
    try:
        done = subprocess.run(
            [words[0], *options, *words[1:]], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            text=True, pass_fds=fds, preexec_fn=_becoming(owner(place), groups, limited),
        )  # fmt: skip
    finally:
        for fd in fds:
            os.close(fd)
    return done.stdout


def _becoming(user: int, groups: list[Path], limited: bool) -> Callable[[], None]:
    def become() -> None:
        for group in groups:
            file = group / "tasks" if (group / "tasks").exists() else group / "cgroup.procs"
            file.write_text("0")
        if limited:
            for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 4096)):
                resource.setrlimit(kind, (most, most))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(MIRRORS, MIRRORS, MIRRORS)
            os.setresuid(user, user, user)

    return become


def _calls(words: list[str], place: Path) -> Row:
    """One call of the kernel inside a jail, with the filter and without."""
    program = [*words, "/usr/bin/python3", "-I", "-S", "-c", COUNTING]
    ours, floor = [], []
    for _ in range(5):
        floor.append(float(_run(program, place, [])) / CALLS * 1e9)
        ours.append(float(_run(program, place, [], filtered=True)) / CALLS * 1e9)
    ratio = median(ours) / median(floor)
    return Row(
        "a system call, filtered", f"{median(ours):.0f} ns", f"unfiltered: {median(floor):.0f} ns", ratio, "told", None
    )


async def _orders(system: System, box: str) -> Row:
    """An order to a driver through the keeper's line, and to the driver itself: what there is of a box."""
    driver = LocalBoxes(LocalConfig(system.data))
    floor = await timed(300, lambda: driver.inspect(box))
    async with _line(system, driver) as remote:
        ours = await timed(300, lambda: remote.inspect(box))
    more = (median(ours) - median(floor)) * 1000
    told = f"{more:.2f} ms more (p50 of asking what there is of a box)"
    return Row("an order through the keeper", told, f"straight: {shown(floor)}", None, "≤ 1 ms more", more <= 1)


@asynccontextmanager
async def _line(system: System, driver: LocalBoxes) -> AsyncIterator[RemoteBoxes]:
    """A keeper's desk and a server's driver at the two ends of a socket, both in this process."""
    ours, theirs = socket.socketpair()
    desk = Desk(*await connect(ours), Bounds(system.data, f"unix:{system.data}/agents.sock"), {"boxes": driver})
    serving = asyncio.create_task(desk.serve())
    line = Line(*await connect(theirs))
    try:
        yield RemoteBoxes(line)
    finally:
        await line.close()
        await serving
