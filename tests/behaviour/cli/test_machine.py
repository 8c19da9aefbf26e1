"""The machine restarts under a running Rift: everything ends at once, and what a reboot empties is empty."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from tests.behaviour.cli.systems import Running, system

from keel.testing import eventually


def everyone(data: Path) -> list[int]:
    """Every process of a system: server, database, agents, jails and what runs in them."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            said = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            cwd = os.readlink(entry / "cwd")
            if str(data) in said or cwd.startswith(str(data)) or str(data) in (entry / "mountinfo").read_text():
                found.append(int(entry.name))
    return found


def reboot(up: Running) -> None:
    """Kill all, at once and again until nobody is left; then sockets, cgroups and shared memory are gone."""
    while pids := everyone(up.data):
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
