"""The door in a box with an open network: there for the jail as in every other, and for nobody outside of it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box
from tests.conformance.agent.plane import Plane
from tests.conformance.agent.test_door import REFS, ask
from tests.conformance.agent.world import World

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
    pytest.mark.needs("pasta", "nft", "ip"),
]


@pytest.fixture
def plane(world: World) -> Iterator[Plane]:
    """The control plane, on the loopback of the boxes' host."""
    plane = world.within(world.host, Plane)
    yield plane
    plane.down()


def reached(address: str) -> bool:
    """Whether the door's port answers there, as seen from where this runs."""

    try:
        socket.create_connection((address, 3127), timeout=2).close()
    except OSError:
        return False
    return True


def test_the_door_is_there_in_an_open_network_for_the_jail_alone(make_box: Callable[..., Box], world: World) -> None:
    tools: dict[str, Any] = {
        "pasta": shutil.which("pasta"), "nft": shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"),
    }  # fmt: skip
    box = make_box(world=world, network="open", **tools).start().ready()
    said = ask(box, f"print(*ask('GET', '/')); print(*ask('GET', '{REFS}')); print(*ask('POST', '/work', b'x'))")
    lines = [line for line in said.splitlines() if line.strip()]
    assert lines[0] == lines[-1] == "404 Rift's door knows no such request. `verbs` lists what can be asked for."
    assert "Unsupported method" in said  # the plane's own answer: it was asked
    assert not world.within(world.host, lambda: reached("127.0.0.1"))
