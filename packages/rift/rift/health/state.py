"""The system's standing for whoever asks: read at most once a second, by one of any number who ask, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from keel.cached import Cached
from rift.deps import Deps
from rift.health import store
from rift.health.decide import Facts, decide_ready
from rift.migrations import HEAD
from rift.names import SILENT_AFTER

log = structlog.get_logger()

READ_SECONDS = 2.0
"""How long the database has to say how things stand."""


class Numbers:
    """What the database says at one moment; `away` when it did not."""

    def __init__(self, counts: list[store.Count], pools: list[store.Pool], *, away: bool = False) -> None:
        self.counts = counts
        self.pools = pools
        self.away = away


class Health:
    """The two questions, each with its cache. One a process."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.numbers = Cached(deps.clock, self._numbers)
        self.checks = Cached(deps.clock, self._checks)

    async def _numbers(self) -> Numbers:
        try:
            async with asyncio.timeout(READ_SECONDS), self._deps.db.look() as tx:
                return Numbers(await store.counts(tx, self._deps.clock.now() - SILENT_AFTER), await store.pools(tx))
        except Exception as error:  # noqa: BLE001 - a scraper gets what there is, and that this is not
            log.warning("metrics.database_away", error=type(error).__name__)
            return Numbers([], [], away=True)

    async def _checks(self) -> Mapping[str, bool]:
        found = None
        try:
            async with asyncio.timeout(READ_SECONDS), self._deps.db.look() as tx:
                found = await store.standing(tx)
        except Exception as error:  # noqa: BLE001 - not ready, whatever it is
            log.warning("ready.database_away", error=type(error).__name__)
        return decide_ready(
            Facts(
                step=found.step if found else None,
                wanted_step=HEAD,
                listening=self._deps.signals.listening,
                worker_age=found.worker_age if found else None,
                waiting=self._deps.db.use().waiting,
                stopping=self._deps.signals.closing,
            )
        )
