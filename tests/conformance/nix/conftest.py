"""Each test of the suite runs once with each builder; a kit is how a test says what a commit's flake is."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from tests.conformance.keeper.keeping import Keeper
from tests.conformance.nix.flakes import HELLO, Origin, derivation, flake

from rift.drivers.boxes.local import LocalConfig
from rift.drivers.nix.fake import FakeBuilder
from rift.drivers.nix.local import LocalBuilder, NixConfig
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


class LocalKit:
    """Flakes that Nix builds on this host."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.config = NixConfig(LocalConfig(self.data))
        self.as_root = os.geteuid() == 0
        self.builder: Builder = LocalBuilder(self.config)
        self.repo = "r-1"
        self.origin = Origin(self.data / "mirrors" / self.repo)
        self.mirror = self.origin.mirror

    def good(self) -> str:
        ours = f'{{ packages = [ ({HELLO}) ]; env.HELLO = "world"; setup = "echo set up\\n"; }}'
        return self.origin.commit({"flake.nix": flake(ours)})

    def broken(self) -> str:
        package = derivation("echo no such luck; exit 3")
        return self.origin.commit({"flake.nix": flake(f"{{ packages = [ {package} ]; }}")})

    def bare(self) -> str:
        return self.origin.commit({"README": "nothing here"})

    def endless(self) -> str:
        package = derivation("echo begun; sleep 100000")
        return self.origin.commit({"flake.nix": flake(f"{{ packages = [ {package} ]; }}")})


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that users of builds may enter: pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="rift-nix-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def local(open_folder: Path, needs: Callable[[str], None]) -> LocalKit:
    """Nix on this host, for what only it does."""
    needs("nix")
    return LocalKit(open_folder)


@pytest.fixture(params=["fake", "remote fake", "local", "remote local"])
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kit]:
    """One of the builders under test; a remote one is asked by a server without privileges."""
    made: FakeKit | LocalKit = FakeKit(tmp_path) if request.param.endswith("fake") else request.getfixturevalue("local")
    if not request.param.startswith("remote"):
        yield made
        return
    keeper = Keeper(Bounds(made.mirror.parent.parent, ""), {"builder": made.builder})
    made.builder = RemoteBuilder(await keeper.open())
    yield made
    await keeper.close()
