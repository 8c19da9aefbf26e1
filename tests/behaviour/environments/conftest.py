"""A Rift in memory whose repository's heads have flakes, as the test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.behaviour.environments.flakes import Flakes
from tests.behaviour.machines.harness import HastyClock, place

from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def flakes(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Flakes]:
    """Main is watched and wants one warm box; nothing happens by itself."""
    async with place(database, tmp_path, HastyClock(), warm=1) as made:
        yield Flakes(made)
