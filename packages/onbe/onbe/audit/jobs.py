"""Upkeep of what is counted: when a window is over, its number goes on the record. Any number of replicas may do it."""

from __future__ import annotations

from datetime import timedelta

import structlog

from onbe.audit import STRANGER_WINDOW, Row, note_all, store
from onbe.deps import Deps

GRACE = timedelta(seconds=STRANGER_WINDOW)
"""How long after its end a window is still open: for a refusal that another replica dates by a clock that lags."""
CLOSED_AT_ONCE = 500

log = structlog.get_logger()


async def tick(deps: Deps) -> None:
    """Write one `denials.counted` for every window and reason that had more than the one refusal on the record."""
    before = deps.clock.now() - timedelta(seconds=STRANGER_WINDOW) - GRACE
    async with deps.db.tx() as tx:
        windows = await store.close_windows(tx, before, CLOSED_AT_ONCE)
        counted = [
            Row(
                "denials.counted",
                deps.clock.monotonic(),
                agent="sweeper",
                outcome=reason,
                facts={"since": since.isoformat(), "seconds": STRANGER_WINDOW, "more": count - 1},
            )
            for reason, since, count in windows
            if count > 1
        ]
        await note_all(tx, deps, counted)
    if counted:
        log.info("denials.counted", reasons=len(counted))
