"""A Rift whose App covers an account of GitHub's, which is a GitHub in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.behaviour.coverage.covering import Covering, covering
from tests.behaviour.github.hub import hub_of
from tests.unit.people.house import house

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def acme(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Covering]:
    """The account `acme-inc`, connected with ada's team `acme` and enabled; nothing is listed yet."""
    async with house(database, tmp_path, clock) as made:
        yield await covering(await hub_of(made))
