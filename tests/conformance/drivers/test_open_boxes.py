"""Boxes with an open network on this very host, through the driver. What it reaches is shown in agent/test_open.py."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path

import pytest
from tests.conformance.drivers.kit import LocalKit
from tests.conformance.drivers.plane import Seat

from keel.testing import eventually
from rift.drivers.boxes.local import processes as table
from rift.drivers.boxes.local.opening import Lack, find_opening
from rift.drivers.boxes.local.places import find_box

BOX = "b-00000000000000000000000c"
LACK = find_opening()

pytestmark = [
    pytest.mark.needs("pasta", "nft"),
    pytest.mark.skipif(
        isinstance(LACK, Lack), reason=f"not run: {LACK.what}; mend: {LACK.mend}" if isinstance(LACK, Lack) else ""
    ),
]


async def opened(kit: LocalKit, incarnation: int = 1) -> Seat:
    seat = kit.plane.seat(BOX, incarnation)
    await kit.driver.start(dataclasses.replace(kit.spec(BOX, incarnation), network="open"))
    await seat.up()
    return seat


def pastas(kit: LocalKit) -> list[int]:
    box = find_box(kit.config, BOX)
    assert box is not None
    return [
        pid for pid in table.all_processes(box) if b"pasta" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    ]


async def test_an_open_box_has_an_interface_a_name_server_and_no_proxy(local: LocalKit) -> None:
    seat = await opened(local)
    _, said = await seat.run("cat /etc/resolv.conf; ls /sys/class/net 2>/dev/null; cut -d: -f1 /proc/net/dev; env")
    assert "nameserver 192.0.0.53" in said
    assert "eth0" in said
    assert "_proxy" not in said.lower()


async def test_destroying_an_open_box_leaves_no_pasta(local: LocalKit) -> None:
    await opened(local)
    (pasta,) = pastas(local)
    await local.driver.destroy(BOX)
    assert not Path(f"/proc/{pasta}").exists() or not Path(f"/proc/{pasta}/cmdline").read_bytes()


async def test_a_killed_agent_takes_pasta_with_it_and_the_next_has_its_own(local: LocalKit) -> None:
    await opened(local)
    (pasta,) = pastas(local)
    box = find_box(local.config, BOX)
    assert box is not None
    agent = table.agent_of(box)
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    await eventually(lambda: not pastas(local))
    seat = await opened(local, 2)
    assert pastas(local) not in ([], [pasta])
    _, said = await seat.run("cut -d: -f1 /proc/net/dev")
    assert "eth0" in said


async def test_pasta_that_outlived_its_agent_is_found_as_the_boxs(local: LocalKit) -> None:
    """As after a crash in which the kernel told it nothing: a stopped one cannot hear."""
    await opened(local)
    (pasta,) = pastas(local)
    os.kill(pasta, signal.SIGSTOP)
    await local.driver.stop(BOX)
    assert pastas(local) == []
