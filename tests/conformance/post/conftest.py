"""Each test of the suite runs once with each post."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conformance.post.offices import FakeKit, Kit, serving


@pytest.fixture(params=["fake", "starttls", "tls", "none"])
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kit]:
    """One of the posts under test, with a server that wants a password where the way is protected."""
    if request.param == "fake":
        yield FakeKit()
        return
    async with serving(tmp_path, request.param, signing_in=request.param != "none") as made:
        yield made
