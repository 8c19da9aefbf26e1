"""The composition: everything concrete is chosen here, and nowhere else.

`connect` opens what every program needs, `work` is the background side; `serving.py` is the HTTP side.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from keel.clock import SystemClock
from keel.db import Database
from keel.ids import SystemIds
from keel.ticking import Tick, tick_on
from onbe import meters
from onbe.deps import Deps
from onbe.drivers.keys.away import NoKeys
from onbe.drivers.keys.protocol import PublishedKeys
from onbe.drivers.signing.away import NoSigning
from onbe.drivers.signing.local import LocalSigning
from onbe.drivers.signing.protocol import Signing
from onbe.drivers.sponsors.away import NoDirectory
from onbe.drivers.sponsors.protocol import SponsorDirectory
from onbe.records import jobs as records
from onbe.settings import OnbeSettings
from onbe.tasks import jobs as task_jobs


@asynccontextmanager
async def connect(
    settings: OnbeSettings,
    data: Path,
    url: str,
    *,
    signing: Signing | None = None,
    keys: PublishedKeys | None = None,
    sponsors: SponsorDirectory | None = None,
) -> AsyncIterator[Deps]:
    """Everything a program of Onbe needs, for the length of the block.

    `url` is the database's, under the runtime role and in Onbe's schema. The drivers are those of the settings, unless
    others are given. Raises KeyTrouble where there is no key to sign with.
    """
    clock = SystemClock()
    signing = signing or LocalSigning(settings, data, clock)
    async with Database(url) as db:
        yield Deps(
            clock=clock,
            ids=SystemIds(),
            db=db,
            signing=signing,
            keys=keys or NoKeys(),
            sponsors=sponsors or NoDirectory(),
            settings=settings,
            data=data,
        )


def no_signing() -> Signing:
    """For a program that issues nothing, and so needs no key."""
    return NoSigning()


def ticks(deps: Deps) -> list[Tick[Deps]]:
    """The background work: each by name, every so many seconds. Any number of replicas may do it at once."""
    every = deps.settings.ledger.seal_every.total_seconds()
    return [
        Tick("records.seal", every, records.seal),
        Tick("records.months", 3600, records.months),
        Tick("tasks", 5, task_jobs.tick),
    ]


async def work(deps: Deps) -> None:
    """Do background work until cancelled: what fails is logged, and tried again at its next time."""
    await tick_on(ticks(deps), deps, lambda name, outcome: meters.TICKS.labels(name, outcome).inc())
