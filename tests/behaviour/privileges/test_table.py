"""Each process of a whole Rift is as docs/security.md says."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from tests.behaviour.cli.systems import RIFT, SAMPLE, Running, environment, free_port, rift, system
from tests.behaviour.privileges.table import AS_ROOT, Row, Status, rows, wrong
from tests.conformance.keeper.silent import Silent

from keel.holding import holder
from keel.postgres import EmbeddedPostgres
from keel.testing import eventually
from rift.drivers.boxes.local import LocalConfig
from rift.drivers.boxes.local.runtime import Trial, find_python, install
from rift.drivers.forge.local.reader import Reader


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    with system({"Rift__Onbe__Enabled": "true", "Onbe__Server__Port": str(free_port())}) as one:
        yield one


def children(pid: int) -> list[int]:
    """Of all its threads: the kernel tells each one's own, and pasta is started by another than the first."""
    return [int(word) for tasks in Path(f"/proc/{pid}/task").glob("*/children") for word in tasks.read_text().split()]


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def below(pid: int) -> list[int]:
    return [found for child in children(pid) for found in (child, *below(child))]


def main_of(path: Path) -> int:
    """Who holds a lock of the data folder: whom Ctrl-C reaches."""
    return int(json.loads(path.read_text())["pid"])


def serving(main: int) -> list[int]:
    """The server's or worker's process: as root, the keeper's child."""
    return [pid for pid in children(main) if "rift.keeper.drop" in command_line(pid)] if AS_ROOT else [main]


def onbes(up: Running) -> dict[str, list[int]]:
    """Onbe beside Rift: as root, its keeper and that one's child."""
    told = holder(up.data / "onbe" / "onbe.lock")
    assert told, up.errors()
    main = int(told["pid"])
    return {"onbe keeper": [main], "onbe": children(main)} if AS_ROOT else {"onbe keeper": [], "onbe": [main]}


@contextmanager
def worker(up: Running) -> Iterator[int]:
    """The main process of a worker beside the server."""
    one = Running(up.data, "worker")
    try:
        one.start("Rift works in the background")
        assert one.process
        yield one.process.pid
    finally:
        one.kill()


APART = {"launcher", "pasta", "git reader", "warden", "build"}
"""Tried by themselves, or not on every host."""

TUN = Path("/dev/net/tun")
OPEN = (
    TUN.exists()
    and TUN.stat().st_mode & 0o006 == 0o006
    and all(shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") for name in ("pasta", "nft"))
)
"""Whether boxes can have an open network here."""


def warm(up: Running) -> set[str]:
    """The boxes that nobody has claimed."""
    with psycopg.connect(EmbeddedPostgres(up.data).url("rift_owner"), autocommit=True) as connection:
        found = connection.execute("SELECT id FROM boxes WHERE task IS NULL AND state <> 'destroyed'")
        return {id for (id,) in found}


async def boxes_processes(up: Running) -> dict[str, list[int]]:
    if OPEN:
        old = warm(up)
        assert rift("repo", "network", SAMPLE, "--mode", "open", "--data", up.data).status == 0
        await eventually(lambda: not old & warm(up), within=60, every=0.2)  # or one of them, with a proxy, is claimed
    task, box = await up.take()
    await up.bash(task, box, "sleep 4242", timeout=600, block_for=0)
    settings = str(up.data / "boxes" / box / "agent.json")

    def find() -> list[int]:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if settings in command_line_of(pid)]

    (agent,) = find()
    (bwrap,) = [pid for pid in children(agent) if "bwrap" in command_line(pid)]
    (init,) = children(bwrap)
    await eventually(lambda: [pid for pid in below(init) if command_line_of(pid).startswith("sleep 4242")], within=30)
    pasta = [pid for pid in below(agent) if command_line_of(pid).startswith(("pasta", "/usr/bin/pasta"))]
    assert bool(pasta) is OPEN
    return {"pasta": pasta, "agent": [agent], "bwrap": [bwrap], "init": [init], "command": below(init)}


def command_line_of(pid: int) -> str:
    try:
        return command_line(pid)
    except OSError:  # it has ended
        return ""


async def test_every_process_is_as_the_page_says(up: Running) -> None:
    keeper = main_of(up.data / "rift.lock")
    await eventually(lambda: onbes(up)["onbe"], within=60, every=0.2)
    postmaster = int((up.data / "postgres" / "cluster" / "postmaster.pid").read_text().split()[0])
    with worker(up) as working:
        found = {
            **await boxes_processes(up),
            "keeper": [keeper, working] if AS_ROOT else [],
            "server": serving(keeper),
            "worker": serving(working),
            "postgres": [postmaster, *below(postmaster)],
            **onbes(up),
        }
        async with _adding(up) as (line, git):
            found |= {"command line": [line], "git": git}
            table = rows()
            assert set(table) == {name for name, pids in found.items() if pids} | APART
            faults = [
                fault for name, row in table.items() for pid in found.get(name, []) for fault in _faults(row, pid)
            ]
    assert faults == []


def _faults(row: Row, pid: int) -> list[str]:
    try:
        return list(wrong(row, Status(pid)))
    except FileNotFoundError:  # a part of Postgres that came and went
        return []


class _adding:
    """A `rift repo add` that waits for an origin which says nothing, and the git that it runs."""

    def __init__(self, up: Running) -> None:
        self.up = up
        self.silent = Silent()

    async def __aenter__(self) -> tuple[int, list[int]]:
        url, callers = await self.silent.__aenter__()
        self.process = subprocess.Popen(
            [RIFT, "repo", "add", "acme/silent", url, "--data", str(self.up.data)],
            env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        await eventually(lambda: len(callers) == 1, within=60)
        return self.process.pid, [pid for pid in below(self.process.pid) if command_line(pid).startswith("git")]

    async def __aexit__(self, *_: object) -> None:
        await self.silent.__aexit__()
        await asyncio.to_thread(self.process.wait, 60)


def test_what_reads_the_pushes_of_boxes_is_as_the_page_says() -> None:
    config = LocalConfig(Path("/"))
    words = Reader(config.reader_uid, config.group).words() if AS_ROOT else ()
    told = subprocess.run([*words, "/bin/cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    status = Status("self")
    parent = status["Pid"]
    status.values = dict(line.split(":\t", 1) for line in told.splitlines() if ":\t" in line)
    assert status["PPid"] == parent
    assert list(wrong(rows()["git reader"], status)) == []


async def test_the_launcher_and_what_it_starts_are_as_the_page_says(up: Running) -> None:
    config = LocalConfig(up.data)
    trial = Trial(config, find_python(), (await install(config)).launcher)
    told = await trial.run(["/bin/cat", "/proc/self/status"])
    status = Status("self")
    status.values = dict(line.split(":\t", 1) for line in told["text"].splitlines() if ":\t" in line)
    row = rows()["launcher"]
    found = status.ids("Uid")
    assert found == ({config.probe_uid} if AS_ROOT else {os.geteuid()})  # of a box that is a trial
    status.values["Uid"] = "\t".join([str(config.first_uid if AS_ROOT else os.geteuid())] * 4)
    assert list(wrong(row, status)) == []
