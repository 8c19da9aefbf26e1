"""The system's standing for whoever asks: read at most once a second, by one of any number who ask, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import timedelta

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from keel.cached import Cached
from keel.web.numbers import Page
from onbe import meters
from onbe.deps import Deps
from onbe.health import store
from onbe.health.decide import Facts, decide_ready
from onbe.migrations import HEAD

log = structlog.get_logger("onbe.health")

READ_SECONDS = 2.0
"""How long the database has to say how things stand."""
SINGLE = {
    "tasks": ("onbe_tasks_open", "Tasks that have not ended."),
    "agents": ("onbe_agents", "Agents that are registered."),
    "unsealed": ("onbe_ledger_unsealed_rows", "Numbers of the ledger that no checkpoint has settled yet."),
    "sealed": ("onbe_ledger_checkpoint_age_seconds", "How long ago the last checkpoint was signed; absent before it."),
}


class Health:
    """Whether requests can be taken, and the numbers. One a process."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.checks = Cached(deps.clock, self._checks)
        self.page = Page(meters.REGISTRY, self._numbers, deps.clock)

    async def _checks(self) -> Mapping[str, bool]:
        found = None
        try:
            async with asyncio.timeout(READ_SECONDS), self._deps.db.look() as tx:
                found = await store.standing(tx)
        except Exception as error:  # noqa: BLE001 - not ready, whatever it is
            log.warning("ready.database_away", error=type(error).__name__)
        age = found.unsealed_age if found else None
        return decide_ready(
            Facts(
                step=found.step if found else None,
                wanted_step=HEAD,
                keys=len(self._deps.signing.jwks().get("keys", ())),
                unsealed=None if age is None else timedelta(seconds=age),
                seal_every=self._deps.settings.ledger.seal_every,
                waiting=self._deps.db.use().waiting,
            )
        )

    async def _numbers(self) -> Collector:
        try:
            async with asyncio.timeout(READ_SECONDS), self._deps.db.look() as tx:
                return Numbers(self._deps, await store.counts(tx))
        except Exception as error:  # noqa: BLE001 - a scraper gets what there is, and that this is not
            log.warning("metrics.database_away", error=type(error).__name__)
            return Numbers(self._deps, None)


class Numbers(Collector):
    """What the database says, and how busy it is; None for a database that said nothing."""

    def __init__(self, deps: Deps, counts: list[store.Count] | None) -> None:
        self._deps = deps
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        use = self._deps.db.use()
        yield GaugeMetricFamily("onbe_database_up", "Whether the database answered this page.",
                                value=int(self._counts is not None))  # fmt: skip
        pool = GaugeMetricFamily("onbe_database_connections", "This process's connections.", labels=["state"])
        pool.add_metric(["used"], use.used)
        pool.add_metric(["free"], use.free)
        yield pool
        yield GaugeMetricFamily(
            "onbe_database_waiting", "Requests of this process that wait for a connection.", value=use.waiting
        )
        for one in self._counts or ():
            name, text = SINGLE[one.what]
            yield GaugeMetricFamily(name, text, value=one.n)
