"""Upkeep of connections."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.connections import actions
from rift.deps import Deps

log = structlog.get_logger()

FORGET_SECONDS = 600


def register(jobs: Jobs[Deps]) -> None:
    """What expired is forgotten, and clients that nobody uses."""
    jobs.every("connections.forget", FORGET_SECONDS, forget)


async def forget(deps: Deps) -> None:
    """Forget what is good for nothing any more."""
    ended, clients = await actions.forget(deps)
    if ended or clients:
        log.info("connections.forgotten", ended=ended, clients=clients)
