"""A system, a client and a person for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.people.house import house
from tests.wire.oauth.desk import Desk

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.drivers.documents.fake import FakeDocuments


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Deps]:
    """Everything an action takes."""
    async with house(database, tmp_path, clock) as made:
        yield made


@pytest.fixture
def documents(deps: Deps) -> FakeDocuments:
    """What clients say of themselves elsewhere."""
    assert isinstance(deps.documents, FakeDocuments)
    return deps.documents


@pytest.fixture
def desk(deps: Deps) -> Desk:
    """A client and its person's browser."""
    return Desk(deps)
