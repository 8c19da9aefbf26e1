"""Upkeep of pools."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.pools import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """A claim, a new head or a new watch asks for `pools.fill`; the scan finds what a lost request left."""
    jobs.on("pools.fill", fill)
    jobs.on("pools.renew", actions.renew)
    jobs.every("pools.scan", 10, scan)


async def fill(deps: Deps, repo: str, ref: str) -> None:
    """One pool."""
    step = await actions.fill(deps, repo, ref)
    if step.make or step.drain:
        log.info("pool.filled", repo=repo, ref=ref, made=step.make, drained=len(step.drain))


async def scan(deps: Deps) -> None:
    """Every pool."""
    for repo, ref in await actions.all_pools(deps):
        await fill(deps, repo, ref)
