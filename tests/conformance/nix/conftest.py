"""Each test of the suite runs once with each builder; a kit is how a test says what a commit's flake is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
from tests.conformance.keeper.keeping import Keeper

from rift.drivers.nix.fake import FakeBuilder
from rift.drivers.nix.protocol import Builder, Built
from rift.drivers.nix.remote import RemoteBuilder
from rift.keeper.checks import Bounds


class Kit(Protocol):
    """A builder, and a repository with its mirror."""

    builder: Builder
    repo: str
    mirror: Path

    def good(self) -> str:
        """A commit whose flake has one package, HELLO=world and a setup, and says "made it" while it is built."""

    def broken(self) -> str:
        """A commit whose flake fails to be built, saying "no such luck"."""

    def bare(self) -> str:
        """A commit without a flake."""

    def endless(self) -> str:
        """A commit whose build never ends."""


class FakeKit:
    """Flakes in memory."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeBuilder()
        self.builder: Builder = self.fake
        self.repo = "r-1"
        self.mirror = folder / "mirrors" / "r-1"
        self._count = 0

    def good(self) -> str:
        commit = self.bare()
        paths = ("/nix/store/00000000000000000000000000000000-tool",)
        self.fake.flakes[commit] = Built(Path("/nix/store"), paths, (("HELLO", "world"),), "echo set up\n")
        self.fake.says[commit] = b"made it\n"
        return commit

    def broken(self) -> str:
        commit = self.bare()
        self.fake.broken[commit] = "no such luck"
        return commit

    def bare(self) -> str:
        self._count += 1
        return f"{self._count:040x}"

    def endless(self) -> str:
        commit = self.good()
        self.fake.held[commit] = asyncio.Event()
        return commit


@pytest.fixture(params=["fake", "remote fake"])
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kit]:
    """One of the builders under test; a remote one is asked by a server without privileges."""
    made: FakeKit = FakeKit(tmp_path)
    if not request.param.startswith("remote"):
        yield made
        return
    keeper = Keeper(Bounds(tmp_path, ""), {"builder": made.builder})
    made.builder = RemoteBuilder(await keeper.open())
    yield made
    await keeper.close()
