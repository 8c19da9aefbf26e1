"""The fixtures of the client's tests: a world, a small Onbe, a store, a client, a task."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.onbe.client.stage import ISSUER, PERSON, RESOURCE, FakeOnbe, FakeWorld, agent_key

from onbe_client import MemoryGrants, OnbeClient, TaskSession


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def onbe(world: FakeWorld) -> FakeOnbe:
    return FakeOnbe(world)


@pytest.fixture
def store() -> MemoryGrants:
    return MemoryGrants()


@pytest.fixture
async def client(world: FakeWorld, onbe: FakeOnbe, store: MemoryGrants) -> AsyncIterator[OnbeClient]:
    async with onbe.http() as http:
        yield OnbeClient(ISSUER, "reports", agent_key().as_dict(private=True), http=http, world=world, store=store)


@pytest.fixture
async def task(client: OnbeClient) -> TaskSession:
    return await client.exchange(PERSON, RESOURCE, "a b")
