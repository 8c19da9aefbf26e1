"""Upkeep of tasks."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.tasks import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """A task closes itself when it is quiet for 4 hours (contract: Tasks, The clocks), or its owner was put out."""
    jobs.every("tasks.close_quiet", 10, close_quiet)
    jobs.on("tasks.close_put_out", close_put_out)


async def close_quiet(deps: Deps) -> None:
    """Close what has been quiet for too long, and what a lost job left of those who were put out."""
    for task in await actions.close_quiet(deps):
        log.info("task.closed_itself", task=task)
    await close_put_out(deps)


async def close_put_out(deps: Deps) -> None:
    """Close the tasks of people who were put out."""
    for task in await actions.close_put_out(deps):
        log.info("task.owner_put_out", task=task)
