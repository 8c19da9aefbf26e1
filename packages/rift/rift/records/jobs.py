"""Upkeep of records."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from keel.ledger.keys import KeyTrouble
from rift.deps import Deps
from rift.names import SEAL_SECONDS
from rift.records import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """Records are sealed, and their texts erased when they are old."""
    jobs.every("records.seal", SEAL_SECONDS, seal)
    jobs.every("records.forget", 60, forget)


async def seal(deps: Deps) -> None:
    """Seal what is not sealed yet. A key that cannot be used is logged each time: the records wait for it."""
    try:
        sealed = await actions.seal(deps)
    except KeyTrouble as trouble:
        log.error("records.not_sealed", reason=str(trouble))
        return
    if sealed:
        log.info("records.sealed", records=sealed)


async def forget(deps: Deps) -> None:
    """Erase the texts that are older than they are kept."""
    erased = await actions.forget(deps)
    if erased:
        log.info("records.texts_erased", texts=erased)
