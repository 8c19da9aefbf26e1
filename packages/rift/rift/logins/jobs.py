"""Upkeep of people's GitHub accounts."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.logins import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """Who is put out is forgotten at once, and by the round if that was lost."""
    jobs.on("logins.end_put_out", end_put_out)
    jobs.on("logins.check", check)
    jobs.every("logins.forget", 60, forget)


async def end_put_out(deps: Deps) -> None:
    """Forget the accounts of who was put out a moment ago."""
    await actions.end_put_out(deps)


async def check(deps: Deps, github_id: int) -> None:
    """Whether GitHub still takes the tokens of an account."""
    await actions.check_account(deps, github_id)


async def forget(deps: Deps) -> None:
    """Delete what is over."""
    gone = await actions.forget(deps)
    if gone:
        log.info("logins.forgotten", rows=gone)
