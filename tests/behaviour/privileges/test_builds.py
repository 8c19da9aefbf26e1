"""Who builds environments is as docs/security.md says."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.privileges.table import Status, rows, wrong
from tests.conformance.nix.attacks import in_jails
from tests.conformance.nix.conftest import LocalKit

from keel.testing import eventually


@pytest.fixture
def kit() -> Iterator[LocalKit]:
    folder = Path(tempfile.mkdtemp(prefix="rift-nix-"))
    folder.chmod(0o711)
    yield LocalKit(folder)
    shutil.rmtree(folder)


def wardens(kit: LocalKit) -> list[int]:
    """The processes that watch over builds below the kit's data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words[-2:] == [b"warden", b""] and os.fsencode(kit.data / "lib" / "agent.pyz") in words:
            found.append(int(entry.name))
    return found


@pytest.mark.needs("nix")
async def test_who_builds_is_as_the_page_says(kit: LocalKit) -> None:
    building = asyncio.create_task(kit.builder.build("e-1", kit.repo, kit.mirror, kit.endless()))

    async def begun() -> bool:
        return b"begun" in (await kit.builder.log("e-1", 0)).data

    try:
        await eventually(begun, within=60)
        found = {"warden": wardens(kit), "build": in_jails(kit)}
        faults = [fault for name, pids in found.items() for pid in pids for fault in wrong(rows()[name], Status(pid))]
        assert len(found["warden"]) == 1
        assert len(found["build"]) >= 3
        assert faults == []
    finally:
        building.cancel()
        await asyncio.wait([building])
