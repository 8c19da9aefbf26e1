"""A Rift with a GitHub App, its people, and a GitHub in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.behaviour.github.hub import Hub, hub_of
from tests.unit.people.house import house

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def hub(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Hub]:
    """Ada is the platform admin, and bob and grace have accounts; ada's team is `acme`."""
    async with house(database, tmp_path, clock) as made:
        yield await hub_of(made)
