"""The composition: everything concrete is chosen here, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from keel.clock import SystemClock
from keel.db import Database
from keel.ids import SystemIds
from onbe.deps import Deps
from onbe.drivers.keys.protocol import PublishedKeys
from onbe.drivers.signing.protocol import Signing
from onbe.drivers.sponsors.protocol import SponsorDirectory
from onbe.settings import OnbeSettings


@asynccontextmanager
async def connect(
    settings: OnbeSettings,
    data: Path,
    url: str,
    *,
    signing: Signing,
    keys: PublishedKeys,
    sponsors: SponsorDirectory,
) -> AsyncIterator[Deps]:
    """Everything a program of Onbe needs, for the length of the block.

    `url` is the database's, under the runtime role and in Onbe's schema.
    """
    async with Database(url) as db:
        yield Deps(
            clock=SystemClock(),
            ids=SystemIds(),
            db=db,
            signing=signing,
            keys=keys,
            sponsors=sponsors,
            settings=settings,
            data=data,
        )
