"""Each test of the suite runs once with each driver."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.conformance.drivers.kit import FakeKit, Kit, LocalKit, RemoteKit


@pytest.fixture(scope="session")
def data() -> Iterator[Path]:
    """A data folder for all tests, as filling its lib takes a second. Other users may not enter pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="rift-boxes-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(params=["fake", "local", "remote"])
async def kit(request: pytest.FixtureRequest) -> AsyncIterator[Kit]:
    """One of the drivers under test."""
    if request.param == "fake":
        fake = FakeKit()
        yield fake
        await fake.close()
        return
    make = RemoteKit if request.param == "remote" else LocalKit
    local = make(request.getfixturevalue("data"))
    await local.open()
    yield local
    await local.close()


@pytest.fixture
async def local(data: Path) -> AsyncIterator[LocalKit]:
    """The local driver, for what only it does."""
    kit = LocalKit(data)
    await kit.open()
    yield kit
    await kit.close()
