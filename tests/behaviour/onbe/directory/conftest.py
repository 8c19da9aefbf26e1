"""The admin API with an administrator before it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.behaviour.onbe.directory.office import Office, office
from tests.behaviour.onbe.secrets import watched

from keel.testing.fakes import FakeClock
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def admin(onbe_database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Office]:
    async with office(onbe_database, tmp_path, clock=clock) as opened:
        with watched(opened.deps.db, opened.http) as watch:
            yield opened
            await watch.check()
