"""Upkeep of tasks."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.tasks import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """A task that is quiet for 4 hours closes itself (contract: Tasks, The clocks)."""
    jobs.every("tasks.close_quiet", 10, close_quiet)


async def close_quiet(deps: Deps) -> None:
    """Close what has been quiet for too long."""
    for task in await actions.close_quiet(deps):
        log.info("task.closed_itself", task=task)
