"""The data folder's disk is full at each step of a box's life: refused with the reason, and well when there is room."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.behaviour.crash.cells import Plant
from tests.behaviour.crash.scenario import REPO, Client

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a small file system needs root")


@contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of its own, large enough for Rift's programs and two boxes."""
    folder = Path(tempfile.mkdtemp(prefix="rift-cell-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m,mode=711", "tmpfs", str(folder)], check=True)
    points = folder / "points"  # of the test's own, which always have room
    points.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=711", "tmpfs", str(points)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(points), str(folder)], check=True)
        folder.rmdir()


@contextmanager
def full(data: Path) -> Iterator[None]:
    """Not a byte is free."""
    filler = data / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    try:
        yield
    finally:
        filler.unlink()


async def test_a_full_disk_is_told_at_every_step_and_all_is_well_when_there_is_room_again(made: Plant) -> None:
    with small_disk() as data:
        async with made.cell(data) as cell:
            client = Client(cell)
            cell.begin("full")
            await cell.have_server()
            await client.open()
            await cell.call("rift_watch", repo=REPO, ref="main", warm=0)

            with full(data):  # a start
                said = await cell.call("rift_vm_new", task=client.task, repo=REPO, ref="main")
                assert "No space left on device" in said.text, said
            for vm in (await cell.call("rift_vm_ls", task=client.task)).structure["vms"]:
                await cell.call("rift_vm_destroy", task=client.task, vm=vm["id"])
            await cell.call("rift_watch", repo=REPO, ref="main", warm=0)  # an admin's word: the failure is mended
            client.vm = await client.take()
            await client.command()
            await client.write()

            with full(data):  # commands, a file, output, parking, waking
                said = await cell.call(
                    "rift_bash", task=client.task, vm=client.vm, timeout=60, block_for=30,
                    command="echo more >~/more || echo refused; seq 1 300000; exit 3",
                )  # fmt: skip
                ended = await client.followed(said)
                assert ended["exit"] == 3
                assert "disk full" in ended["reason"]
                said = await cell.call(
                    "rift_write", task=client.task, vm=client.vm, path="note.txt", content="x" * 99999
                )
                ended = await client.followed(said)
                assert (ended["exit"], "disk full" in ended["reason"]) == (1, True)
                await client.park()
                await client.read()

            with full(data):  # the agent dies: it cannot start again, and its box waits
                os.kill(int((data / "boxes" / client.vm / "agent.pid").read_text()), signal.SIGKILL)
                await cell.until(lambda: not cell.agent_lives(client.vm))
                cell.let_time_pass()
                await cell.until(lambda: client.box(client.vm)["incarnation"] > 5, what="starts in vain")
                assert client.box(client.vm)["state"] == "running"
            await cell.until(lambda: cell.agent_lives(client.vm), what="the agent, once there is room")
            await client.command()
            await client.read()

            with full(data):  # an end
                await client.outputs()
                await client.close()
                await cell.until(lambda: client.box(client.vm)["state"] == "destroyed", what="its destruction")
            cell.begin("after")
            await client.unwatch()
            await client.see_nothing_left()
