"""A live Onbe for every test that asks for one, in which no credential comes to stand where it does not belong."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.behaviour.onbe.secrets import watched
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def world(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[World]:
    async with world_of(onbe_database, clock) as made:
        with watched(made.deps.db, made.http) as watch:
            yield made
            await watch.check()
