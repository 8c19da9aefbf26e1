"""Upkeep of commands."""

from __future__ import annotations

from keel.jobs import Jobs
from rift.commands import actions
from rift.deps import Deps


def register(jobs: Jobs[Deps]) -> None:
    """A command that no agent took within 10 minutes never runs (contract: Boxes); those of a closed task go."""
    jobs.every("commands.expire", 5, actions.expire)
    jobs.every("commands.forget", 60, forget)


async def forget(deps: Deps) -> None:
    """Delete the commands of tasks that were closed a day ago."""
    await actions.forget(deps)
