"""Upkeep of hosts: the report that claims go by."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.drivers.boxes.protocol import DriverError
from rift.hosts import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """The report comes round by itself; a claim never looks at the host, which may be slow."""
    jobs.every("hosts.report", 5, report)


async def report(deps: Deps) -> None:
    """Keep what the host has left."""
    try:
        await actions.report(deps)
    except DriverError as error:  # the last report grows stale, and then nothing is held up by it
        log.warning("host.unknown", reason=error.reason)
