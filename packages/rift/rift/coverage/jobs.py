"""Upkeep of coverage: accounts of GitHub's are listed again and again, and when somebody asks."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.coverage import actions
from rift.deps import Deps

log = structlog.get_logger()

TICK_SECONDS = 10
"""How often we see which accounts are due."""
FORGET_SECONDS = 60


def register(jobs: Jobs[Deps]) -> None:
    """Each account is a job of its own, one at a time."""
    jobs.every("coverage.poll", TICK_SECONDS, actions.poll)
    jobs.every("coverage.forget", FORGET_SECONDS, actions.forget)
    jobs.on("coverage.cover", cover)


async def cover(deps: Deps, installation: int) -> None:
    """One account."""
    done = await actions.cover(deps, installation)
    if done is None:
        return
    told = {"installation": installation, "new": done.new, "changed": done.changed, "uncovered": done.uncovered}
    if done.failure:
        log.warning("account.unlisted", reason=done.failure, **told)
    elif done.new or done.changed or done.uncovered or done.stands != "listed":
        log.info("account.covered", stands=done.stands, **told)
