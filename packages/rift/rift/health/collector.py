"""`/metrics`: what this process counted, and what the database says of all, as text."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from keel.web.numbers import Page
from rift import meters
from rift.deps import Deps
from rift.health.state import Health, Numbers

SINGLE = {
    "unheard": ("rift_agents_unheard", "Running boxes whose agent was not heard for a minute."),
    "tasks": ("rift_tasks_open", "Open tasks."),
    "unsealed": ("rift_ledger_unsealed_rows", "Numbers of the ledger that no checkpoint has settled yet."),
    "sealed": ("rift_ledger_checkpoint_age_seconds", "How long ago the last checkpoint was signed; absent before it."),
    "workers": ("rift_workers", "Workers that are known."),
}
LABELLED = {
    "boxes": ("rift_boxes", "Boxes that are not destroyed, by state, warm or in a task.", ("state", "holder")),
    "commands": ("rift_commands_open", "Open commands: queued, or claimed by their box's agent.", ("kind", "state")),
    "jobs": ("rift_jobs_queued", "Background jobs that wait (todo) or are done (doing).", ("status",)),
}
POOL = ("repository", "ref")
STATES = ("starting", "running", "parked", "destroying", "failed")
"""Told also when there is none, so that an alert on one of them has something to compare."""


def page(deps: Deps, health: Health) -> Page:
    """The page, made at most once a second."""

    async def more() -> Collector:
        return _Numbers(deps, await health.numbers.get())

    return Page(meters.REGISTRY, more, deps.clock)


class _Numbers(Collector):
    def __init__(self, deps: Deps, numbers: Numbers) -> None:
        self._deps = deps
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        use = self._deps.db.use()
        yield GaugeMetricFamily("rift_database_up", "Whether the database answered this page.",
                                value=int(not self._numbers.away))  # fmt: skip
        pool = GaugeMetricFamily("rift_database_connections", "This process's connections.", labels=["state"])
        pool.add_metric(["used"], use.used)
        pool.add_metric(["free"], use.free)
        yield pool
        yield GaugeMetricFamily(
            "rift_database_waiting", "Tasks of this process that wait for a connection.", value=use.waiting
        )
        if not self._numbers.away:
            yield from self._told()

    def _told(self) -> Iterator[Metric]:
        counts = self._numbers.counts
        for what, (name, text) in SINGLE.items():
            found_n = [one.n for one in counts if one.what == what]
            if found_n:
                yield GaugeMetricFamily(name, text, value=sum(found_n))
        for what, (name, text, labels) in LABELLED.items():
            family = GaugeMetricFamily(name, text, labels=labels)
            found = {(one.one, one.two)[: len(labels)]: one.n for one in counts if one.what == what}
            if what == "boxes":
                found = {(state, holder): 0.0 for state in STATES for holder in ("warm", "task")} | found
            for values, n in sorted(found.items()):
                family.add_metric(values, n)
            yield family
        wanted = GaugeMetricFamily("rift_pool_wanted", "Warm boxes that a watch asks for.", labels=POOL)
        ready = GaugeMetricFamily("rift_pool_ready", "Warm boxes that run at the ref's head.", labels=POOL)
        for pool in self._numbers.pools:
            wanted.add_metric((pool.repository, pool.ref), pool.wanted)
            ready.add_metric((pool.repository, pool.ref), pool.ready)
        yield wanted
        yield ready
