"""The fixtures of the guard's tests: a world, an issuer in memory, a guard."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.onbe.client.stage import FakeWorld
from tests.unit.onbe.guard.issuer import Issuer

from onbe_client.guard import Guard


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def issuer(world: FakeWorld) -> Issuer:
    return Issuer(world)


@pytest.fixture
async def guard(issuer: Issuer) -> AsyncIterator[Guard]:
    async with issuer.guard() as made:
        yield made
