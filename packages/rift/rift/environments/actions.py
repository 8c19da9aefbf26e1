"""What is done with environments. What takes `deps` alone is a use case; what takes `tx` is a part of another's."""

from __future__ import annotations

from datetime import datetime

from keel import jobs
from keel.db import Tx
from rift.deps import Deps
from rift.environments import store
from rift.environments.decide import cut, decide_kept, decide_next, decide_want
from rift.environments.model import FAILURE_MOST, HELD_FOR, LOG_READY, TRIES, Environment, LogPart, Made
from rift.repos import actions as repos

BUILDS_TOLD = 50
"""How many of a repository's environments a page is given."""
PART_MOST = 256 * 1024
"""About how many bytes of a log are read at once."""


def topic(repo: str) -> str:
    """What is notified whenever an environment of a repository (its id) changes, or its build says something."""
    return f"environments:{repo}"


# What other nouns ask ------------------------------------------------------------


async def want(tx: Tx, deps: Deps, repo: str, commit: str, asked_at: datetime | None = None) -> Environment:
    """Have the environment of a commit, of a repository by its id: it waits to be built where it is not there.

    One that failed is built again if somebody asked since (`asked_at`), or where the failure may have been the hour's.
    Returns it as it is then.
    """
    now = deps.clock.now()
    found = await store.find(tx, repo, commit)
    if found is None:
        await store.insert(tx, "env_" + deps.ids.short(12), repo, commit, now)
    elif decide_want(found, asked_at, now):
        await store.again(tx, found.id, now)
    else:
        return found
    await _queue(tx, repo)
    await tx.notify(topic(repo))
    wanted = await store.find(tx, repo, commit)
    assert wanted is not None  # nobody deletes what is waiting
    return wanted


async def lost(tx: Tx, deps: Deps, repo: str, commit: str) -> None:
    """What was built for a commit is not on the host any more: it is built again."""
    found = await store.find(tx, repo, commit)
    if found is not None and await store.lost(tx, found.id, deps.clock.now()):
        await _queue(tx, repo)
        await tx.notify(topic(repo))


async def of_head(tx: Tx, repo: str, commit: str) -> Environment | None:
    """The environment of a commit; None where nobody has wanted it yet."""
    return await store.find(tx, repo, commit)


async def of_repo(tx: Tx, repo: str) -> list[Environment]:
    """A repository's newest environments, the last wanted first, for a page."""
    return await store.of_repo(tx, repo, BUILDS_TOLD)


async def log_of(tx: Tx, id: str, offset: int = 0) -> LogPart | None:
    """What the newest build of an environment (its id) said from an offset on, about 256 KiB at most.

    `first` is beyond the offset where a part of the log was not kept. None for no environment.
    """
    return await store.log(tx, id, offset, PART_MOST)


# What the jobs do ------------------------------------------------------------


async def take(deps: Deps, repo: str) -> Environment | None:
    """Begin the newest of a repository's environments that somebody waits for: it is this caller's from here on.

    None where there is none, another of the repository is being built, or there is no place for one more.
    """
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        await store.lock(tx, repo)
        step = decide_next(await store.open_of(tx, repo), now)
        if step.cancel:
            await store.cancel(tx, step.cancel, now)
            await tx.notify(topic(repo))
        if step.build is None:
            return None
        gathered = step.build.step == "gathered"
        if gathered and await store.building(tx, now) >= deps.settings.environments.at_once:
            return None
        taken = await store.take(tx, step.build.id, "build" if gathered else "gather", now, now + HELD_FOR)
        await tx.notify(topic(repo))
        return taken


async def keep(deps: Deps, built: Environment) -> bool | None:
    """Go on building it. Whether somebody still waits for it; None where another builds it by now."""
    async with deps.db.tx() as tx:
        held = await store.keep(tx, built.id, built.epoch, deps.clock.now() + HELD_FOR)
    return held.needed if held else None


async def gathered(deps: Deps, built: Environment, lacks: str) -> bool:
    """What its checkout needs is there; it takes a place to be built, or waits for one (False)."""
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        await store.lock(tx, built.repo)
        free = await store.building(tx, now) < deps.settings.environments.at_once
        mine = await store.step(tx, built.id, built.epoch, "build" if free else "gathered", lacks)
        if not free:
            await store.put_back(tx, built.id, built.epoch, counts=False)
        await tx.notify(topic(built.repo))
    return free and mine


async def put_back(deps: Deps, built: Environment, reason: str, *, counts: bool) -> None:
    """It was interrupted: it waits again, or has failed where that happened too often."""
    if counts and built.tries >= TRIES:
        await fail(deps, built, f"It was begun {built.tries} times and interrupted: {reason}", stays=False)
        return
    async with deps.db.tx() as tx:
        await store.put_back(tx, built.id, built.epoch, counts=counts)
        await tx.notify(topic(built.repo))


async def cancelled(deps: Deps, built: Environment) -> None:
    """Nobody waits for it any more."""
    async with deps.db.tx() as tx:
        await store.cancel(tx, [built.id], deps.clock.now(), built.epoch)
        await _over(tx, deps, built)


async def ready(deps: Deps, built: Environment, made: Made | None, lacks: str, size: int) -> bool:
    """It is there, and boxes of its commit start. Its log, of `size` bytes, is kept but for its beginning.

    False where another builds it by now.
    """
    async with deps.db.tx() as tx:
        if not await store.ready(tx, built.id, built.epoch, made, lacks, deps.clock.now()):
            return False
        await store.cut_log(tx, built.id, built.epoch, 0, size - LOG_READY)
        for ref in await store.heads_at(tx, built.repo, built.commit):
            await repos.note_success(tx, built.repo, ref, built.commit)
            await repos.pool_moved(tx, built.repo, ref)
        await _over(tx, deps, built)
    return True


async def fail(deps: Deps, built: Environment, failure: str, *, stays: bool) -> bool:
    """It cannot be built: that is the last failure at each watched head of its commit, and its boxes fail with it.

    False where another builds it by now.
    """
    failure = cut(failure, FAILURE_MOST)
    async with deps.db.tx() as tx:
        if not await store.fail(tx, built.id, built.epoch, failure, stays, deps.clock.now()):
            return False
        for ref in await store.heads_at(tx, built.repo, built.commit):
            await repos.note_failure(tx, deps, built.repo, ref, built.commit, failure, stays=stays)
        await _over(tx, deps, built)
    return True


async def put_log(deps: Deps, built: Environment, first: int, data: bytes) -> None:
    """A further piece of its log; of one that grows too long the middle goes."""
    async with deps.db.tx() as tx:
        await store.put_log(tx, built.id, built.epoch, first, data)
        gone = decide_kept(first + len(data))
        if gone is not None:
            await store.cut_log(tx, built.id, built.epoch, *gone)
        await tx.notify(topic(built.repo))


async def scan(deps: Deps) -> None:
    """Queue what waits, or was left by a worker that is gone."""
    async with deps.db.tx() as tx:
        for repo in await store.repos_open(tx, deps.clock.now()):
            await _queue(tx, repo)


async def old(deps: Deps) -> None:
    """Queue the tidying of each repository that has environments which nothing uses any more."""
    async with deps.db.tx() as tx:
        for repo in await store.repos_of_old(tx):
            # Under the builds' lock, so that nothing is collected that a build has just made.
            await jobs.defer(tx, "environments.tidy", lock=_lock(repo), once=f"tidy:{repo}", repo=repo)


async def tidy(deps: Deps, repo: str) -> int:
    """Collect what a repository's environments were made of that nothing uses any more, then forget them.

    Forgotten last: where this is ended between the two, the next scan finds them still. How many they were.
    """
    async with deps.db.tx() as tx:
        await store.let_go(tx, repo, deps.clock.now())
        kept = await store.builds_of(tx, repo)
    if kept:
        await deps.builder.keep(repo, tuple(kept))
    else:
        await deps.builder.forget(repo)  # with the user whose builds they were: there are not many
    async with deps.db.tx() as tx:
        return await store.forget_old(tx, repo)


async def _over(tx: Tx, deps: Deps, built: Environment) -> None:
    """A build has ended: boxes of its commit go on, and who waited for a place takes it."""
    await jobs.defer(tx, "boxes.equip", once=f"equip:{built.repo}:{built.commit}", repo=built.repo, commit=built.commit)
    await tx.notify(topic(built.repo))
    for repo in await store.repos_open(tx, deps.clock.now()):
        await _queue(tx, repo)


async def _queue(tx: Tx, repo: str) -> None:
    await jobs.defer(tx, "environments.build", lock=_lock(repo), once=f"env:{repo}", repo=repo)


def _lock(repo: str) -> str:
    return f"env:{repo}"
