"""What a jail, a box's user or a repository says of itself to the driver, and what the driver believes of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.drivers.kit import LocalKit, started
from tests.conformance.drivers.test_local_boxes import BOX, OTHER, box_dir

from keel.testing import eventually
from rift.drivers.boxes.local import processes as table
from rift.drivers.boxes.local.places import BoxDir
from rift.drivers.boxes.protocol import DriverError, Presence


async def test_what_a_jail_calls_itself_is_not_believed_of_another_box(local: LocalKit) -> None:
    """Its command lines and folders are its own to choose; a user's boxes all have that user's uid."""
    seat = await started(local, BOX)
    boxes = local.data / "boxes"
    names = [f"{boxes}/{OTHER}/agent.json", f"{boxes}/b-made-up/agent.json", f"{boxes}/{OTHER}/pasta.pid"]
    await seat.order("bash", command=f"exec -a pasta sh -c 'sleep 600; :' run {' '.join(names)}", timeout=900)
    await seat.order("bash", command=f"mkdir -p /var{boxes} /tmp{boxes}/{OTHER}; sleep 600", timeout=900)
    marked = os.fsencode(names[0])

    def claimants() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and marked in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    await eventually(lambda: len(claimants()) == 1, within=10)
    assert await local.driver.inventory() == [BOX]
    assert await local.driver.inspect(OTHER) == Presence("absent")
    own = box_dir(local)
    posed = BoxDir(boxes / OTHER, own.uid)  # as where all boxes have one uid
    assert table.agents(posed) == []
    assert table.all_processes(posed) == []
    table.kill_agents(boxes / OTHER / "agent.json")
    assert len(claimants()) == 1
    assert set(claimants()) <= set(table.all_processes(own))


async def test_a_box_whose_user_poses_as_its_agent_leads_root_to_no_other_box_and_still_goes(local: LocalKit) -> None:
    await started(local, BOX)
    await started(local, OTHER)
    socket = boxes_socket(local, BOX)
    socket.unlink()
    socket.symlink_to(boxes_socket(local, OTHER))
    with pytest.raises(DriverError):
        await local.driver.park(BOX, 5)
    assert (await local.driver.inspect(OTHER)).state == "running"
    for said in (b"[" * 500_000, b'{"ok": true, "incarnation": "one"}', b'{"ok": 1}', b"\xff", b"7", b""):
        socket.unlink()
        async with await asyncio.start_unix_server(_saying(said), socket):
            assert (await local.driver.inspect(BOX)).incarnation in (1, None)
            with contextlib.suppress(DriverError):
                await local.driver.park(BOX, 6)
    socket.unlink(missing_ok=True)
    pid = box_dir(local).path / "agent.pid"
    pid.unlink()
    os.mkfifo(pid)
    held = os.open(pid, os.O_RDWR)
    try:
        assert (await local.driver.inspect(BOX)).state == "running"
        await local.driver.destroy(BOX)
    finally:
        os.close(held)
    assert await local.driver.inventory() == [OTHER]


def boxes_socket(local: LocalKit, box: str) -> Path:
    return local.data / "boxes" / box / "control.sock"


def _saying(said: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said + b"\n")
        writer.close()

    return say


async def test_what_a_repository_lists_is_told_in_few_words_that_can_be_shown(local: LocalKit) -> None:
    (local.source / ".gitmodules").write_text(f'[submodule "a"]\n\tpath = a\0b\x1b[2J{"x" * 100_000}\n')
    local.commit = local.make_commit("lacking")
    for _ in range(2):
        (told,) = (await local.driver.start(local.spec(BOX))).lacks
        assert told.isprintable()
        assert len(told) < 300
