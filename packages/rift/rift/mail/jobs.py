"""Sending letters."""

from __future__ import annotations

from keel.jobs import Jobs
from rift.deps import Deps


def register(jobs: Jobs[Deps]) -> None:
    """Each letter is a job of its own, so that a server that hangs on one holds no other."""
    jobs.on("mail.send", send)


async def send(deps: Deps, letter: str) -> None:
    """Send one letter; without an SMTP server it waits on the Mailbox page."""
