"""What the tests of keys over HTTP share: an endpoint with one key, and the driver in development."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.conformance.onbe_keys.asking import DEVELOPMENT, PATH
from tests.conformance.onbe_keys.endpoint import Endpoint, serving
from tests.unit.keel.jose.making import public

from keel.testing import FakeClock
from onbe.drivers.keys.http import HttpKeys


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with serving() as made:
        made.says(PATH, {"keys": [public("P-256")]})
        yield made


@pytest.fixture
async def keys(clock: FakeClock) -> AsyncIterator[HttpKeys]:
    async with HttpKeys(DEVELOPMENT, clock) as made:
        yield made
