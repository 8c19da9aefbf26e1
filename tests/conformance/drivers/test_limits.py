"""A box at its limits: each is held, told with its value and what changes it, and leaves everyone else alive.

Every attempt is bounded: it ends by itself soon after the limit that it is to meet.
"""

from __future__ import annotations

import base64
import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.drivers.kit import LocalKit, started
from tests.conformance.drivers.plane import Seat

from keel.testing import eventually
from rift.drivers.boxes.local import groups as cgroups
from rift.drivers.boxes.protocol import Limits, Presence

BOX, OTHER = "b-0000000000000000000000aa", "b-0000000000000000000000bb"
MIB = 2**20
SMALL = Limits(memory=128 * MIB, processes=100, disk=64 * MIB, open_files=200)

HELD = cgroups.find(Path("/nowhere"))
needs_memory = pytest.mark.skipif(not HELD.holds("memory"), reason="no cgroup holds memory here")
needs_pids = pytest.mark.skipif(not HELD.holds("pids"), reason="no cgroup counts processes here")

EAT = "python3 -c \"b = []\nfor _ in range({mib}): b.append(b'x' * 1048576)\nprint(len(b))\""
FORK = """python3 - <<'END'
import os, time
made = 0
try:
    for _ in range(3000):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
finally:
    print(made, flush=True)
END"""


async def limited(kit: LocalKit, box: str = BOX, limits: Limits = SMALL, incarnation: int = 1) -> Seat:
    """A box with these limits, running."""
    seat = kit.plane.seat(box, incarnation)
    await kit.driver.start(dataclasses.replace(kit.spec(box, incarnation), limits=limits))
    await seat.up()
    return seat


async def run(seat: Seat, command: str) -> dict[str, Any]:
    """A command's end, with its output's last bytes as `output`.

    Where others free disk meanwhile, files are counted after a minute only: those that wait to be ended sleep longer.
    """
    ended = await seat.event("ended", await seat.order("bash", command=command, timeout=110), within=120)
    return {**ended, "output": base64.b64decode(ended["tail"]).decode()}


async def works(seat: Seat) -> None:
    assert await seat.run("echo fine") == (0, "fine\n")


@needs_memory
async def test_memory_out_kills_the_command_and_nobody_else_and_is_said(local: LocalKit) -> None:
    neighbour, seat = await started(local, OTHER), await limited(local)
    ended = await run(seat, EAT.format(mib=400))
    assert ended["exit"] == 137
    assert ended["reason"] == "killed: out of memory (limit 128 MiB, Rift:Boxes:Memory)"
    ended = await run(seat, EAT.format(mib=400) + "; echo went on")
    assert (ended["exit"], ended["output"].endswith("went on\n")) == (0, True)
    assert ended["reason"].startswith("a process of this VM was killed while it ran: out of memory (limit 128 MiB")
    await works(seat)
    await works(neighbour)
    assert await local.driver.inspect(BOX) == Presence("running", 1)
    ended = await run(neighbour, EAT.format(mib=200))
    assert (ended["exit"], ended["reason"]) == (0, None)


@needs_memory
async def test_files_in_shared_memory_count_and_are_bounded(local: LocalKit) -> None:
    seat = await limited(local)
    ended = await run(seat, "head -c 50M /dev/zero > /dev/shm/x && head -c 50M /dev/zero > /dev/shm/y")
    assert ended["exit"] == 1
    assert "No space left on device" in ended["output"]
    assert "its /dev/shm 64 MiB" in ended["reason"]
    await run(seat, "rm /dev/shm/*")
    for place in ("/", "/dev", "/run/rift", "/srv"):
        assert (await seat.run(f"touch {place}/x"))[0] != 0, place


@needs_pids
async def test_a_fork_bomb_ends_at_the_limit_and_is_said(local: LocalKit) -> None:
    seat = await limited(local)
    ended = await run(seat, FORK)
    assert ended["exit"] == 1
    assert 0 < int(ended["output"].split()[0]) < 100
    assert ended["reason"] == "the limit of 100 processes was reached (Rift:Boxes:Processes)"
    refused = await run(seat, "true")
    assert refused["exit"] is None or refused["exit"] == 0
    await eventually(lambda: seat.run("true"), within=20)
    await works(seat)


async def test_one_file_stops_at_the_disks_limit(local: LocalKit) -> None:
    seat = await limited(local)
    ended = await run(seat, "head -c 200M /dev/zero > big")
    assert ended["exit"] == 153
    assert ended["reason"].startswith("disk full (limit 64 MiB, Rift:Boxes:Disk): no file may be larger")
    assert (await seat.run("stat -c %s big; rm big"))[1] == f"{64 * MIB}\n"
    ended = await run(seat, "python3 -c \"f = open('big', 'wb')\nwhile True: f.write(bytes(2 ** 20))\"")
    assert ended["exit"] == 1
    assert "disk full (limit 64 MiB, Rift:Boxes:Disk)" in ended["reason"]
    await run(seat, "rm big")
    await works(seat)


async def test_many_files_beyond_the_disks_limit_end_the_command_and_can_be_deleted(local: LocalKit) -> None:
    seat, neighbour = await limited(local), await started(local, OTHER)
    write = "for i in $(seq 150); do head -c 1M /dev/zero > $1.$i; sleep 0.02; done; sleep 90"
    ended = await run(seat, f"w() {{ {write}; }}; w many")
    assert ended["reason"].startswith("disk full (limit 64 MiB, Rift:Boxes:Disk)")
    assert ended["exit"] != 0
    said = await run(seat, "echo still here")
    assert (said["exit"], said["output"]) == (0, "still here\n")
    assert said["reason"].startswith("disk full (limit 64 MiB, Rift:Boxes:Disk)")
    freed = await run(seat, "rm -f many.*; sync -f . ; true")
    assert (freed["exit"], freed["reason"]) == (0, None)
    await works(seat)
    await works(neighbour)


async def test_files_without_a_name_count_too(local: LocalKit) -> None:
    seat = await limited(local)
    hide = "for i in $(seq 30); do exec {f}>gone.$i; rm gone.$i; head -c 8M /dev/zero >&$f; sleep 0.1; done; sleep 90"
    ended = await run(seat, hide)
    assert ended["reason"].startswith("disk full (limit 64 MiB, Rift:Boxes:Disk)")
    await works(seat)


async def test_a_writer_in_the_background_does_not_go_on_for_ever(local: LocalKit) -> None:
    seat = await limited(local)
    await run(seat, "mkdir closed && chmod 300 closed && (setsid sh -c 'for i in $(seq 400); do head -c 1M /dev/zero > "
                    "closed/$i; sleep 0.03; done' >/dev/null 2>&1 &)")  # fmt: skip
    ended = await run(seat, "sleep 90")
    assert ended["reason"].startswith("disk full (limit 64 MiB, Rift:Boxes:Disk)")

    async def ended_all() -> bool:
        return (await seat.run("pgrep -f '[s]eq 400' || echo none"))[1] == "none\n"

    await eventually(ended_all, within=30)
    assert (await seat.run("stat -c %a closed"))[1] == "300\n"


async def test_more_files_than_the_limit_has_room_for_are_too_much(local: LocalKit) -> None:
    seat = await limited(local)
    ended = await run(
        seat, "python3 -c \"import time\nfor n in range(9000): open(f'f{n}', 'w').close()\ntime.sleep(90)\""
    )
    assert ended["reason"] == "disk full (limit 64 MiB, Rift:Boxes:Disk): more than 4,096 files"
    assert (await run(seat, "find . -name 'f*' -delete"))["exit"] == 0
    await works(seat)


async def test_folders_too_deep_to_be_counted_are_told_and_can_be_deleted(local: LocalKit) -> None:
    seat = await limited(local)
    dig = "import os, time\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')\nopen('x', 'wb').write(bytes(9 << 20))\n"
    ended = await run(seat, f'python3 -c "{dig}time.sleep(90)"')
    assert ended["reason"].startswith("disk full (limit 64 MiB, Rift:Boxes:Disk): folders are nested deeper than 1,000")
    assert (await run(seat, "rm -rf d"))["exit"] == 0

    async def forgotten() -> bool:
        return (await run(seat, "sleep 0.2"))["reason"] is None

    await eventually(forgotten, within=30)


async def test_too_many_open_files_are_hinted_at(local: LocalKit) -> None:
    seat = await limited(local)
    ended = await run(seat, "python3 -c \"f = [open('/dev/null') for _ in range(300)]\"")
    assert ended["exit"] == 1
    assert ended["reason"] == (
        "its output says 'Too many open files': a process of this VM may open 200 (Rift:Boxes:OpenFiles)"
    )
    assert (await seat.run("ulimit -n; ulimit -c"))[1].split() == ["200", "0"]


async def test_a_repositorys_own_limit_is_named_by_the_command_that_changes_it(local: LocalKit) -> None:
    seat = await limited(local, limits=dataclasses.replace(SMALL, own=("open_files",)))
    ended = await run(seat, "python3 -c \"f = [open('/dev/null') for _ in range(300)]\"")
    assert ended["reason"].endswith("may open 200 (rift repo limits someone/app --open-files)")


@pytest.mark.skipif(not HELD.plan.v1 and HELD.plan.v2 is None, reason="no cgroups here")
async def test_a_boxs_groups_hold_its_jail_alone_and_go_with_it(local: LocalKit) -> None:
    seat = await limited(local)
    found = cgroups.find(local.data)
    assert found.boxes() == [BOX]
    assert (await seat.run("cat /proc/self/cgroup | cut -d: -f3 | sort -u; ls -A /sys 2>&1"))[1].startswith("/\n")
    agent = int((local.data / "boxes" / BOX / "agent.pid").read_text())
    for group in found._of(BOX):
        jail = group / "jail" if (group / "jail").exists() else group
        pids = set(map(int, (jail / "cgroup.procs").read_text().split()))
        assert pids
        assert agent not in pids
    await local.driver.stop(BOX)
    assert found.boxes() == []
    await limited(local, incarnation=2)
    await local.driver.destroy(BOX)
    assert found.boxes() == []
    assert list(Path("/sys/fs/cgroup").rglob(found._name)) == []


@pytest.mark.skipif(not HELD.plan.v1 and HELD.plan.v2 is None, reason="no cgroups here")
async def test_groups_that_a_crash_left_are_in_the_inventory_and_can_be_destroyed(local: LocalKit) -> None:
    found = cgroups.find(local.data)
    found.make(OTHER, Limits(), 12345 if os.geteuid() == 0 else None)
    assert OTHER in await local.driver.inventory()
    await local.driver.destroy(OTHER)
    assert await local.driver.inventory() == []


async def test_the_folder_of_all_groups_goes_though_a_removal_was_cut_after_the_last_box_s(local: LocalKit) -> None:
    found = cgroups.find(local.data)
    if not found.plan.v1 and found.plan.v2 is None:
        pytest.skip("this host gives us no cgroups")
    found.make(OTHER, Limits(), 12345 if os.geteuid() == 0 else None)
    made = [path for path in Path("/sys/fs/cgroup").glob(f"**/box-{OTHER}") if found._name in str(path)]
    assert made
    for group in made:
        for inner in (group / "jail", group / "agent", group):
            if inner.exists():
                inner.rmdir()
    assert all(group.parent.exists() for group in made)
    await local.driver.destroy(OTHER)
    assert not any(group.parent.exists() for group in made)


async def test_the_first_process_is_the_last_to_be_killed_for_memory(local: LocalKit) -> None:
    seat = await started(local, BOX)
    assert (await seat.run("cat /proc/self/oom_score_adj"))[1] == "300\n"
