"""A Rift for each test, or one for all the runs of a state machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.behaviour.machines.harness import Bench, HastyClock, Place, place

from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def rift(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Place]:
    """A Rift whose calls never wait."""
    async with place(database, tmp_path, HastyClock()) as made:
        yield made


@pytest.fixture
def bench(database: FreshDatabase, tmp_path: Path) -> Iterator[Bench]:
    """A Rift for one run of a state machine after another."""
    made = Bench(database, tmp_path)
    yield made
    made.close()
