"""What an exchange and a refresh cost the database: statements and trips, as libpq counts them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.behaviour.onbe.wiretap import tapped
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def alone(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[World]:
    """A world with one connection, on which every statement is prepared already, as on one that serves all day."""
    async with world_of(onbe_database, clock, connections=1) as world:
        await world.register("scribe")
        for _ in range(7):
            given = await world.begin("scribe")
            for _ in range(2):
                await world.refresh("scribe", given["refresh_token"])
        yield world


async def test_an_exchange_takes_six_statements_in_three_trips(alone: World) -> None:
    async with tapped(alone.deps.db) as wire:
        await alone.begin("scribe")
    assert (wire.statements, wire.trips) == (6, 3), " ".join(f"{a}{b}" for a, b in wire.said)


async def test_an_exchange_for_somebody_new_takes_no_more(alone: World) -> None:
    alone.person("grace")
    async with tapped(alone.deps.db) as wire:
        await alone.begin("scribe", "grace")
    assert (wire.statements, wire.trips) == (6, 3), " ".join(f"{a}{b}" for a, b in wire.said)


async def test_a_refresh_takes_four_statements_in_three_trips(alone: World) -> None:
    given = await alone.begin("scribe")
    async with tapped(alone.deps.db) as first:
        assert (await alone.refresh("scribe", given["refresh_token"])).status_code == 200
    async with tapped(alone.deps.db) as wire:
        assert (await alone.refresh("scribe", given["refresh_token"])).status_code == 200
    assert (wire.statements, wire.trips) == (4, 3), " ".join(f"{a}{b}" for a, b in wire.said)
    assert (first.statements, first.trips) == (5, 3), "the first renewal of a task is a record too"
