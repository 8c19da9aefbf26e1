"""Upkeep of records. Each may run on any number of replicas at once: one of them does it, the others find it done."""

from __future__ import annotations

import structlog

from keel.ledger.keys import KeyTrouble
from onbe.deps import Deps
from onbe.drivers.sink.protocol import NotTaken
from onbe.records import actions

log = structlog.get_logger()


async def seal(deps: Deps) -> None:
    """Seal what is not sealed yet; every Onbe:Ledger:SealEvery.

    A key that cannot be used is logged each time: the records wait for it.
    """
    try:
        sealed = await actions.seal(deps)
    except KeyTrouble as trouble:
        log.error("records.not_sealed", reason=str(trouble))
        return
    if sealed:
        log.info("records.sealed", records=sealed)


async def months(deps: Deps) -> None:
    """Have the partitions of this month and the next; every hour."""
    await actions.have_months(deps)


async def deliver(deps: Deps) -> None:
    """Hand on to the sink, where there is one, what is sealed and it has not got; every second.

    What is not taken is logged and comes again: nothing else waits for it.
    """
    if deps.sink is None:
        return
    try:
        count = await actions.deliver(deps, deps.sink)
    except NotTaken as error:
        log.error("records.not_delivered", reason=str(error))
        return
    if count:
        log.info("records.delivered", records=count)
