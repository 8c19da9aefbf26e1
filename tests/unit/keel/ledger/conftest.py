"""A ledger for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.keel.ledger.chain import Chain, chain, filled

from keel.postgres import SUPERUSER
from keel.testing import FakeClock
from keel.testing.plugin import Cluster, FreshDatabase


@pytest.fixture
async def empty(database: FreshDatabase, cluster: Cluster, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Chain]:
    """A ledger without a record."""
    async with chain(database, cluster.postgres.url(SUPERUSER, database.name), tmp_path, clock) as made:
        yield made


@pytest.fixture
async def sealed(empty: Chain) -> Chain:
    """A ledger of 23 records with texts, sealed in four checkpoints."""
    await filled(empty)
    return empty
