"""A Rift for each test, or one for all the runs of a state machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from tests.behaviour.machines.harness import Bench, HastyClock, Place, place
from tests.behaviour.machines.jails import Jail

from keel.testing.plugin import FreshDatabase
from rift.wire.agent.door import routes


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


@pytest.fixture
async def jail(rift: Place) -> AsyncIterator[Jail]:
    lease = await rift.open_task()
    box = await rift.running_box(lease.handle)
    transport = httpx2.ASGITransport(Starlette(routes=routes(rift.deps)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://door") as http:
        yield Jail(http, rift.agent(box.id), box, lease.handle)
