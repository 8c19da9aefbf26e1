"""The system's standing for whoever asks: read at most once a second, by one of any number who ask, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

import structlog

from keel.clock import Clock
from rift.deps import Deps
from rift.health import store
from rift.health.decide import Facts, decide_ready
from rift.migrations import HEAD
from rift.names import SILENT_AFTER

log = structlog.get_logger()

FRESH_SECONDS = 1.0
READ_SECONDS = 2.0
"""How long the database has to say how things stand."""

Value = TypeVar("Value")


class Cached(Generic[Value]):
    """What `read` gives, for `seconds`; whoever asks meanwhile waits for the one reading that goes on."""

    def __init__(self, clock: Clock, read: Callable[[], Awaitable[Value]], seconds: float = FRESH_SECONDS) -> None:
        self._clock = clock
        self._read = read
        self._seconds = seconds
        self._until = float("-inf")
        self._value: Value | None = None
        self._reading: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """The value, at most so old."""
        if self._value is not None and self._clock.monotonic() < self._until:
            return self._value
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._fetch())
        return await asyncio.shield(self._reading)  # one who hangs up takes it from nobody else

    async def _fetch(self) -> Value:
        self._value = await self._read()
        self._until = self._clock.monotonic() + self._seconds
        return self._value


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
