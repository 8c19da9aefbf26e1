"""A system for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.people.house import house

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Deps]:
    """Everything an action takes."""
    async with house(database, tmp_path, clock) as made:
        yield made
