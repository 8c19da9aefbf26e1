"""Upkeep of tasks: what has expired is marked, what ended long ago is forgotten. Any number of replicas may run it."""

from __future__ import annotations

import structlog

from onbe.deps import Deps
from onbe.tasks import actions

log = structlog.get_logger()


async def tick(deps: Deps) -> None:
    """One round."""
    expired = await actions.sweep(deps)
    forgotten = await actions.forget(deps)
    if expired or forgotten:
        log.info("tasks.swept", expired=expired, forgotten=forgotten)
