"""Upkeep: what was used up or revoked, and need not be remembered any more, is deleted. Any replica may do it."""

from __future__ import annotations

import structlog

from onbe.credentials import actions
from onbe.deps import Deps

log = structlog.get_logger()


async def tick(deps: Deps) -> None:
    """One round."""
    forgotten = await actions.forget(deps)
    if forgotten:
        log.info("credentials.forgotten", rows=forgotten)
