"""A live Onbe for every test that asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def world(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[World]:
    async with world_of(onbe_database, clock) as made:
        yield made
