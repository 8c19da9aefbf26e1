"""What cells are copied from, for the tests of crashes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from tests.behaviour.crash.cells import Plant, plant, zygote

from keel.testing.plugin import Cluster


@pytest.fixture
async def made(cluster: Cluster) -> AsyncIterator[Plant]:
    """What cells are copied from."""
    async with AsyncExitStack() as stack:
        forks = stack.enter_context(zygote())
        yield await stack.enter_async_context(plant(cluster, forks))
