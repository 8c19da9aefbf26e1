"""The machine restarts under a running Rift: everything ends at once, and what a reboot empties is empty."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import Running, rift, system
from tests.behaviour.crash.test_full_disk import full
from tests.processes import near

from keel.clock import SystemClock
from keel.testing import eventually

CLOCK = SystemClock()


@contextmanager
def small_disk() -> Iterator[Path]:
    """A data folder on a file system of its own."""
    folder = Path(tempfile.mkdtemp(prefix="rift-cli-", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m,mode=711", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def reboot(up: Running) -> None:
    """Kill all, at once and again until nobody is left; then sockets, cgroups and shared memory are gone."""
    assert not up.data.is_mount()  # or all processes of this machine would be near it
    while pids := near(str(up.data)):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if up.process:
            up.process.poll()
    up.kill()
    for socket in [*up.data.glob("*.sock"), *up.data.glob("boxes/*/*.sock"), *up.data.rglob(".s.PGSQL.*")]:
        socket.unlink(missing_ok=True)
    name = "rift-" + hashlib.sha256(os.fsencode(up.data.resolve())).hexdigest()[:12]
    for group in sorted(Path("/sys/fs/cgroup").rglob(f"{name}/**"), key=lambda path: -len(path.parts)):
        with suppress(OSError):
            group.rmdir()
    shutil.rmtree(up.data / "boxes" / ".trial", ignore_errors=True)


async def test_after_the_machine_restarted_boxes_are_back_with_their_files_and_open_commands_are_lost() -> None:
    with system() as up:
        task, running = await up.take()
        made = (await up.call("rift_vm_new", task=task, repo="sample/hello", ref="main"))[0]
        found = re.search(r"^id (b-[0-9a-f]{24})", made, re.MULTILINE)
        assert found
        parked = found[1]
        for vm in (running, parked):
            said = await up.bash(task, vm, "echo kept >~/kept; echo kept >/tmp/kept; echo kept >kept; sync")
            assert said["exit"] == 0
        await up.call("rift_vm_suspend", task=task, vm=parked)
        open = (await up.bash(task, running, "echo begun; sleep 600", timeout=900, block_for=2))["command"]

        reboot(up)
        up.up()

        async def back() -> bool:
            vms = (await up.call("rift_vm_ls", task=task))[1]["vms"]
            return {vm["id"]: vm["status"] for vm in vms} == {running: "running", parked: "parked"}

        await eventually(back, within=60, every=0.2)
        ended = (await up.call("rift_output", task=task, commands=[{"id": open, "offset": 0}], block_for=20))[1]
        assert ended["status"] == "has not finished"
        assert ended["reason"].startswith("lost: the box's agent restarted")
        assert ended["output"] == "begun\n"
        for vm in (running, parked):
            said = await up.bash(task, vm, "cat ~/kept /tmp/kept kept; git status --short")
            assert said["output"].startswith("kept\nkept\nkept\n"), said
        assert (await up.call("rift_vm_ls", task=task))[1]["vms"][0]["open_commands"] == []
        await up.call("rift_task_close", task=task)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system needs root")
async def test_a_disk_that_is_full_for_the_database_too_is_told_and_all_goes_on_when_there_is_room() -> None:
    """Postgres may end, or refuse to write; calls are answered all the same, and nothing is lost that was told."""
    with small_disk() as data:
        (data / "rift.toml").write_text("[boxes]\ndisk_reserve = 0\n")
        up = Running(data)
        try:
            up.up()
            task, box = await up.take()
            assert (await up.bash(task, box, "echo kept >~/kept; sync"))["exit"] == 0
            with full(data):
                refused = False
                for number in range(200):  # each writes a record, until there is no room for one
                    began = CLOCK.monotonic()
                    reply = await up.raw("rift_task_new", name=f"task {number} {'x' * 150}")
                    assert CLOCK.monotonic() - began < 60
                    assert reply.status in (200, 503), reply
                    if reply.status != 200 or "result" not in reply.messages[-1] or reply.result.get("isError"):
                        refused = True
                        break
                alive = up.process is not None and up.process.poll() is None
                assert alive, up.errors()

            async def works() -> bool:
                reply = await up.raw("rift_task_new", name="there is room again")
                return reply.status == 200 and "result" in reply.messages[-1] and not reply.result.get("isError")

            await eventually(works, within=90, every=0.5)
            assert refused
            assert (await up.bash(task, box, "cat ~/kept"))["output"] == "kept\n"
            await up.call("rift_task_close", task=task)
        finally:
            up.kill()
            rift("down", "--data", data)
