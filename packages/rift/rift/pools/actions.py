"""Bring a pool to what its watched ref asks for."""

from __future__ import annotations

from dataclasses import replace

from rift.boxes import actions as boxes
from rift.deps import Deps
from rift.pools import store
from rift.pools.decide import decide_fill
from rift.pools.model import Fill, Wanted
from rift.repos import actions as repos


async def fill(deps: Deps, repo: str, ref: str) -> Fill:
    """Make what is missing at the head of a watched ref (by its repository's id) and drain what is not wanted.

    Fewer are made where an organization or the host has no more room; the scan comes again.

    Counted and made under one lock a pool, so that any number of fills at once make no more than is missing.
    """
    async with deps.db.tx() as tx:
        await store.lock(tx, repo, ref)
        watch = await repos.pooled(tx, repo, ref)
        wanted = Wanted(watch.warm, watch.head, watch.failure_at) if watch else None
        step = decide_fill(wanted, await store.unclaimed(tx, repo, ref), deps.clock.now())
        found = await repos.repo_by_id(tx, repo)
        if step.make and found is not None and wanted is not None and wanted.head is not None:
            made = await boxes.make_warm(tx, deps, found, ref, wanted.head, step.make)
            step = replace(step, make=made)
    for box in step.drain:
        async with deps.db.tx() as tx:
            await boxes.drain(tx, deps, box)
    return step


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
