"""A live Onbe on a port for the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.behaviour.onbe.client.live import Live, live_onbe

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def live(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[Live]:
    async with live_onbe(onbe_database, clock) as made:
        yield made
