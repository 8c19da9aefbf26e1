"""Limits where there is no cgroup: resource limits in the jail, of any user. Each attempt is bounded."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box, eventually
from tests.conformance.agent.plane import Plane

MIB = 1 << 20
LIMITS = {
    name: {"value": value, "setting": f"Rift:{name}", "by": "rlimit"}
    for name, value in {"memory": 200 * MIB, "processes": 60, "disk": 64 * MIB, "open_files": 150}.items()
}

apart = pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (5, 14) and os.geteuid() != 0,
    reason="before Linux 5.14 it counts all processes of a user of the host",
)


@pytest.fixture
def small(make_box: Callable[..., Box]) -> Box:
    return make_box(limits=LIMITS, nice=3).start().ready()


def said(plane: Plane, command: str) -> tuple[int | None, str, str]:
    """Exit, reason and output of a command."""
    ended: dict[str, Any] = plane.run(command)
    return ended["exit"], ended["reason"] or "", plane.output(ended["n"]).decode()


def test_a_process_gets_no_more_memory_than_the_limit(small: Box, plane: Plane) -> None:
    code, reason, output = said(plane, 'python3 -c "print(len(bytearray(400 << 20)))"')
    assert (code, "MemoryError" in output) == (1, True)
    assert reason.endswith("a process of this VM may have 200 MiB of memory (Rift:memory)")
    assert said(plane, 'python3 -c "print(len(bytearray(20 << 20)))"') == (0, "", f"{20 << 20}\n")


@apart
def test_a_fork_bomb_ends_at_the_limit_and_the_box_goes_on(small: Box, plane: Plane) -> None:
    bomb = "made=0; for i in $(seq 300); do sleep 20 & made=$((made + 1)); done; echo $made"
    code, reason, output = said(plane, bomb)
    assert code != 0
    assert "Resource temporarily unavailable" in output
    assert reason.endswith("the limit of 60 processes was reached (Rift:processes)")
    assert len(small.jailed()) < 100

    def works() -> bool:
        return said(plane, "echo fine")[::2] == (0, "fine\n")  # the first may be refused, and makes room for the next

    eventually(works)


def test_every_process_has_the_limits_and_cannot_lift_them(small: Box, plane: Plane) -> None:
    code, _, output = said(plane, "ulimit -n; ulimit -Hn; ulimit -c; ulimit -f; nice; ulimit -n 151 2>/dev/null")
    assert (code != 0, output.split()) == (True, ["150", "150", "0", str(64 << 10), "3"])


def test_a_file_that_rift_write_has_no_room_for_says_what_may_be_full(small: Box, plane: Plane) -> None:
    assert said(plane, "head -c 60M /dev/zero > /dev/shm/a; head -c 50M /dev/zero > /dev/shm/b")[0] == 1
    ended = plane.ended(plane.order("write", path="/dev/shm/c", content="x" * 100_000))
    assert ended["exit"] == 1
    assert ended["reason"].startswith("disk full; this VM may hold 64 MiB (Rift:disk), its /dev/shm 100 MiB; ")


def test_a_jails_own_memory_file_systems_are_bounded_or_closed(small: Box, plane: Plane) -> None:
    code, reason, _ = said(plane, "head -c 60M /dev/zero > /dev/shm/a && head -c 60M /dev/zero > /dev/shm/b")
    assert (code, "its /dev/shm 100 MiB" in reason) == (1, True)
    for place in ("/", "/dev", "/srv"):
        assert said(plane, f"touch {place}/x")[0] != 0, place


def test_a_group_that_cannot_be_joined_fails_the_box_and_says_which(make_box: Callable[..., Box], plane: Plane) -> None:
    make_box(cgroups=["/nowhere/box"]).start()
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    assert "/nowhere/box/cgroup.procs" in event["reason"]


def test_a_box_whose_first_process_was_killed_for_memory_says_so(make_box: Callable[..., Box], plane: Plane) -> None:
    box = make_box(limits=LIMITS)
    group = box.path / "group"  # plain files: what counts here is what is told of the counter
    group.mkdir()
    (group / "cgroup.procs").touch()
    (group / "memory.oom_control").write_text("oom_kill 0\n")
    box.config["cgroups"] = [str(group)]
    box.start().ready()
    n = plane.bash("sleep 60")
    lines = box.processes().items()
    init = next(pid for pid, line in lines if " init " in line and "bwrap" not in line)
    eventually(lambda: "sleep 60" in "".join(box.jailed().values()))
    (group / "memory.oom_control").write_text("oom_kill 1\n")
    os.kill(init, signal.SIGKILL)
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    for reason in (event["reason"], plane.ended(n)["reason"]):
        assert "out of memory (limit 200 MiB, Rift:memory)" in reason
