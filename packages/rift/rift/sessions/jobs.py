"""Upkeep of sessions, and the letter that somebody asked for without being signed in."""

from __future__ import annotations

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.sessions import actions

log = structlog.get_logger()


def register(jobs: Jobs[Deps]) -> None:
    """Whether an address gets a letter is decided here, where nobody who asks can see it."""
    jobs.on("sessions.send_link", send_link)
    jobs.on("sessions.end_put_out", end_put_out)
    jobs.every("sessions.forget", 60, forget)


async def send_link(deps: Deps, email: str, next: str) -> None:
    """Post a sign-in letter, if this address may sign in."""
    await actions.send_link(deps, email, next)


async def end_put_out(deps: Deps) -> None:
    """End the sessions of who was put out a moment ago."""
    await actions.end_put_out(deps)


async def forget(deps: Deps) -> None:
    """Delete what is over for a while."""
    gone = await actions.forget(deps)
    if gone:
        log.info("sessions.forgotten", rows=gone)
