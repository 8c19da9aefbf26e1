"""A push of 500 MiB goes through a session in bounded memory, also over the keeper's line."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path

import pytest
from tests.conformance.forges.conftest import LocalKit, made_local
from tests.conformance.forges.gate import Gate, client
from tests.conformance.keeper.keeping import Keeper

from keel.sizes import KIB, MIB
from rift.drivers.forge.remote import RemoteForge
from rift.keeper.checks import Bounds

SIZE = 500 * MIB
ROOM = 128 * MIB
"""What this process may grow by: keeper, server and gate are all in it."""


def write(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(SIZE // MIB):
            file.write(os.urandom(MIB))


@pytest.mark.timeout(600)
async def test_a_push_of_500_mib_takes_no_memory_of_that_size(home: Path) -> None:
    kit = LocalKit(home)
    kit.commit("main")
    (home / "data").mkdir()
    kit.mirror = home / "data" / "mirrors" / "app"
    keeper = Keeper(Bounds(home / "data", ""), {"forge": made_local()})
    forge = RemoteForge(await keeper.open())
    async with Gate(forge, kit.url, kit.mirror) as gate:
        await client("clone", "-q", gate.url, "box", folder=home)
        box = home / "box"
        await asyncio.to_thread(write, box / "large")
        await client("-c", "core.compression=0", "add", "large", folder=box)
        await client("commit", "-q", "-m", "large", folder=box)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
        await client("-c", "core.compression=0", "push", "-q", "origin", "HEAD:large", folder=box)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB - before < ROOM
    commit = (await client("rev-parse", "HEAD", folder=box)).strip()
    assert kit.git(kit.source, "rev-parse", "large") == commit
    await keeper.close()
