"""Sending letters, and erasing them."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.mail import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """Each letter is a job of its own; without an SMTP server letters wait on the Mailbox page."""
    jobs.on("mail.send", send)
    jobs.every("mail.due", 10, due)
    jobs.every("mail.erase", 60, erase)


async def send(deps: Deps, letter: str) -> None:
    """Send one letter, if it is its turn, and then whatever else is due.

    The jobs of those have the same few locks, and one whose lock was just let go of may wait for seconds to begin.
    """
    wanted: str | None = letter
    while wanted is not None:
        done = await actions.send(deps, wanted)
        if done is not None and done.failure is not None:
            again = done.next_at and str(done.next_at)
            log.warning("letter.not_sent", letter=wanted, reason=done.failure, next_at=again)
        wanted = await actions.next_due(deps)


async def due(deps: Deps) -> None:
    """Have those sent whose time has come."""
    await actions.want_due(deps)


async def erase(deps: Deps) -> None:
    """Erase what was kept long enough."""
    await actions.erase(deps)
