"""The fixture `github`, for every folder of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.github.standin import StandIn


@pytest.fixture
def github() -> Iterator[StandIn]:
    """A GitHub of this test's own, at a port of loopback."""
    with StandIn() as standin:
        yield standin
