"""Upkeep of origins: the heads of repositories are looked at again and again."""

from __future__ import annotations

from datetime import timedelta

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.origins import actions, store

log = structlog.get_logger()

TICK_SECONDS = 2
"""How often we see which repositories are due."""


def register(jobs: Jobs[Deps]) -> None:
    """Each repository is a job of its own, so that one whose origin hangs holds no other."""
    jobs.every("origins.poll", TICK_SECONDS, poll)
    jobs.on("origins.sync", sync)


async def poll(deps: Deps) -> None:
    """Ask for a look at each repository whose turn it is: Rift:Repos:PollEvery, Rift:Github:PollEvery.

    Of GitHub's only the watched are read: a webhook tells of most pushes, and a poll finds those it did not tell of.
    """
    tick, now = timedelta(seconds=TICK_SECONDS / 2), deps.clock.now()
    every, every_github = deps.settings.repos.poll_every, deps.settings.github.poll_every
    async with deps.db.tx() as tx:
        for repo in await store.due(tx, now, now - every + tick, now - every_github + tick):
            await actions.want(tx, repo)


async def sync(deps: Deps, repo: str) -> None:
    """Read one repository's origin."""
    synced = await actions.sync_in_turn(deps, repo, actions.LOOK_FOR.total_seconds())
    if synced is None or synced.skipped:
        return
    for change in synced.changes:
        log.info("head.moved", repo=synced.repo.full, ref=change.ref, before=change.before, after=change.after)
    if synced.failure:
        log.warning("repository.unread", repo=synced.repo.full, reason=synced.failure)
