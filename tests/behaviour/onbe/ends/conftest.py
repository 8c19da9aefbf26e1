"""A database with bare rows in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.behaviour.onbe.ends.rows import Rows

from keel.db import Database
from keel.testing.fakes import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def rows(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[Rows]:
    async with Database(onbe_database.runtime) as db:
        yield Rows(db, clock)
