"""A system for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.people.house import house

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.drivers.forge.fake import FakeForge


@pytest.fixture
def forge() -> FakeForge:
    """Origins in memory."""
    return FakeForge()


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock, forge: FakeForge) -> AsyncIterator[Deps]:
    """Everything an action takes."""
    async with house(database, tmp_path, clock, forge) as made:
        yield made
