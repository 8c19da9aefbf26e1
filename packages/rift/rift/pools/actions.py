"""Bring a pool to what its watched ref asks for."""

from __future__ import annotations

from dataclasses import replace

from keel.db import Tx
from rift.boxes import actions as boxes
from rift.deps import Deps
from rift.environments import actions as environments
from rift.pools import store
from rift.pools.decide import decide_fill
from rift.pools.model import Fill, Wanted
from rift.repos import actions as repos
from rift.repos.model import Watch


async def fill(deps: Deps, repo: str, ref: str) -> Fill:
    """Make what is missing at the head of a watched ref (by its repository's id) and drain what is not wanted.

    Fewer are made where an organization or the host has no more room; the scan comes again.

    Counted and made under one lock a pool, so that any number of fills at once make no more than is missing.
    """
    async with deps.db.tx() as tx:
        await store.lock(tx, repo, ref)
        watch = await repos.pooled(tx, repo, ref)
        wanted = None
        if watch is not None:
            ready = await _ready(tx, deps, watch)
            wanted = Wanted(watch.warm, watch.head, watch.failure_at, ready, watch.failing_since)
        step = decide_fill(wanted, await store.unclaimed(tx, repo, ref), deps.clock.now())
        found = await repos.repo_by_id(tx, repo)
        if step.make and found is not None and wanted is not None and wanted.head is not None:
            made = await boxes.make_warm(tx, deps, found, ref, wanted.head, step.make)
            step = replace(step, make=made)
        if step.make or step.drain:
            await tx.notify(f"repo:{repo}")
    for box in step.drain:
        async with deps.db.tx() as tx:
            await boxes.drain(tx, deps, box)
    return step


async def _ready(tx: Tx, deps: Deps, watch: Watch) -> bool:
    """Whether boxes of a watched head can have their environment; it is wanted where it is not there.

    Where it failed, so that every box would, the head's failure says so, whoever's push the failure was found by.
    """
    if watch.head is None:
        return False
    found = await environments.want(tx, deps, watch.repo, watch.head, watch.asked_at)
    if found.state == "failed" and found.failure is not None and watch.failure is None:
        await repos.note_failure(tx, deps, watch.repo, watch.ref, watch.head, found.failure, stays=found.stays)
    return found.state == "ready"


async def renew(deps: Deps, repo: str) -> None:
    """Drain the warm boxes of a repository (its id), whose settings changed, and fill its pools again."""
    async with deps.db.tx() as tx:
        refs = [ref for one, ref in await store.pools(tx) if one == repo]
        old = [box.id for ref in refs for box in await store.unclaimed(tx, repo, ref)]
    for box in old:
        async with deps.db.tx() as tx:
            await boxes.drain(tx, deps, box)
    for ref in refs:
        await fill(deps, repo, ref)


async def all_pools(deps: Deps) -> list[tuple[str, str]]:
    """Every pool there is or should be: repository (id) and ref."""
    async with deps.db.tx() as tx:
        return await store.pools(tx)
