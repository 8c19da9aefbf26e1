"""A system and a browser for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.people.house import house
from tests.wire.web.browsing import Browser

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Deps]:
    """Everything an action takes."""
    async with house(database, tmp_path, clock) as made:
        yield made


@pytest.fixture
def browser(deps: Deps) -> Browser:
    """A browser that is not signed in."""
    return Browser(deps)
