"""What happens to boxes behind the calls: start, destroy, park, start again, and the scan that finds what was left.

Every job looks at what is and what should be and does the next step; running one twice is harmless. A slow step stands
between two transactions: the first commits the intent under a number (incarnation, epoch), the second applies the
result guarded by it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import structlog

from keel import jobs as queue
from keel.db import Tx
from keel.ids import digest
from keel.jobs import Jobs
from rift.audit import note
from rift.boxes import actions, store
from rift.boxes.actions import STEADY, TRIES
from rift.boxes.decide import decide_again, decide_failed_start, decide_idle, decide_upkeep
from rift.boxes.model import Box
from rift.deps import Deps
from rift.drivers.boxes.allow import DEFAULT_ALLOW
from rift.drivers.boxes.protocol import BoxSpec, DriverError, Equipment, Interrupted, StoreLost
from rift.drivers.forge.protocol import ForgeError, ForgeInterrupted
from rift.environments import actions as environments
from rift.limits import actions as limits
from rift.repos import actions as repos
from rift.times import span

log = structlog.get_logger()

UNHEARD = timedelta(seconds=30)
"""An agent speaks at least every 25 s; one unheard for longer is looked at."""
TOO_LONG = timedelta(seconds=120)
"""A box whose start began so long ago, with its agent there, has failed."""


def register(jobs: Jobs[Deps]) -> None:
    """The jobs below, by name."""
    jobs.on("boxes.start", start)
    jobs.on("boxes.equip", equip)
    jobs.on("boxes.revive", revive)
    jobs.on("boxes.destroy", destroy)
    jobs.on("boxes.park", park)
    jobs.on("boxes.close", close)
    jobs.every("boxes.upkeep", 5, upkeep)
    jobs.every("boxes.sweep", 30, sweep)


async def start(deps: Deps, box: str) -> None:
    """Start a box that is starting, unless its agent is already there and on its way up."""
    found = await _find(deps, box)
    if found is None or found.state != "starting":
        return
    presence = await deps.boxes.inspect(box)
    if presence.state in ("running", "parked") and presence.incarnation == found.incarnation:
        async with deps.db.tx() as tx:
            environment = await environments.of_head(tx, found.repo, found.commit)
        setup = environment is not None and environment.made is not None and environment.made.setup != ""
        most = TOO_LONG + (deps.settings.environments.setup_for if setup else timedelta(0))
        if deps.clock.now() - found.used_at > most:
            await _fail(deps, found, f"its agent runs, but its jail did not come up in {span(most)}")
        return
    await _launch(deps, box)


async def equip(deps: Deps, repo: str, commit: str) -> None:
    """The environment of a commit is there, or has failed: its boxes that wait for it go on."""
    async with deps.db.tx() as tx:
        for box in await store.waiting(tx, repo, commit):
            await _queue(tx, "start", box)


async def revive(deps: Deps, box: str) -> None:
    """Start the agent of a running box anew when it is gone: the files stay, what it ran is lost.

    One that is about to go, having told of its jail's end, counts as gone.
    """
    found = await _find(deps, box)
    if found is None or found.state != "running":
        return
    presence = await deps.boxes.inspect(box)
    if presence.state == "absent":
        await _fail(deps, found, "its files are gone from the host")
    elif presence.state == "stopped" or presence.incarnation != found.incarnation or found.token_sha256 is None:
        await _launch(deps, box)
    elif presence.state == "parked":
        await actions.apply_power(deps, box)


async def destroy(deps: Deps, box: str) -> None:
    """Remove everything of a box that is marked; a failure leaves it marked, and the scan comes again."""
    found = await _find(deps, box)
    if found is None or found.state != "destroying":
        return
    await deps.boxes.destroy(box)
    await deps.forge.unpin(repos.mirror_path(deps, found.repo), box)
    async with deps.db.tx() as tx:
        await store.destroyed(tx, box, deps.clock.now())
        await tx.notify(f"box:{box}")
        await repos.pool_moved(tx, found.repo, found.ref)


async def park(deps: Deps, box: str) -> None:
    """Park a box that nobody used for 30 minutes and that runs nothing (contract: Boxes)."""
    async with deps.db.tx() as tx:
        found = await store.find_locked(tx, box)
        if found is None:
            return
        open = len(await store.open_commands(tx, [box]))
        if not decide_idle(found, open, deps.clock.now(), deps.settings.boxes.park_after):
            return
        await store.power(tx, box, "parked", found.used_at)
        await tx.notify(f"agent:{box}", f"box:{box}")
    await actions.apply_power(deps, box)


async def close(deps: Deps, task: str) -> None:
    """Mark every box of a closed task; each is then destroyed by a job of its own, until nothing is left."""
    async with deps.db.tx() as tx:
        for box in await store.of_task(tx, task):
            await actions.destroy_in(tx, deps, box)


async def upkeep(deps: Deps) -> None:
    """Find what a lost job left, or what the hour asks for, and queue the next step of each."""
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        steps = [
            (box.id, decide_upkeep(box, now, UNHEARD, deps.settings.boxes.park_after))
            for box in await store.standings(tx)
        ]
        for box, step in steps:
            if step is not None and step != "orphan":
                await _queue(tx, step, box)
    for box in [box for box, step in steps if step == "orphan"]:
        async with deps.db.tx() as tx:
            orphan = await store.find_locked(tx, box)
            if orphan:
                await actions.destroy_in(tx, deps, orphan)
                await note(tx, deps, "box lost its member", task=orphan.task, box=box)


async def look_at_all(deps: Deps) -> None:
    """When a worker begins: the host may have been restarted, so each running box is looked at, heard lately or not."""
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        await store.try_afresh(tx)
        for box in await store.standings(tx):
            if decide_upkeep(box, now, timedelta(0), deps.settings.boxes.park_after) == "revive":
                await _queue(tx, "revive", box.id)


async def _queue(tx: Tx, step: str, box: str) -> None:
    await queue.defer(tx, f"boxes.{step}", lock=f"box:{box}", once=f"{step}:{box}", box=box)


async def sweep(deps: Deps) -> None:
    """Destroy what the host has of boxes that should not exist, and let go of the commits kept for them."""
    there = await deps.boxes.inventory()  # before the rows are read: a box has its row before its files
    async with deps.db.tx() as tx:
        mirrors = [repos.mirror_path(deps, repo) for repo in await store.all_repos(tx)]
    pinned = [(mirror, await deps.forge.pins(mirror)) for mirror in mirrors]
    async with deps.db.tx() as tx:
        known = await store.all_ids(tx)
    strangers = [box for box in there if box not in known]
    # A second look: one that was just being destroyed has gone in the meantime, and is nothing to warn of.
    still = set(await deps.boxes.inventory()) if strangers else set()
    for box in strangers:
        if box in still:
            log.warning("box.left_behind", box=box)
            await deps.boxes.destroy(box)
    for mirror, boxes in pinned:
        for box in boxes - known:
            log.warning("pin.left_behind", box=box, mirror=mirror.name)
            await deps.forge.unpin(mirror, box)


async def _launch(deps: Deps, id: str) -> None:
    token = deps.ids.token()
    async with deps.db.tx() as tx:
        box = await store.find_locked(tx, id)
        if box is None or box.state not in ("starting", "running"):
            return
        ready, equipment = await _equipped(tx, deps, box)
        if not ready:
            return
        attempt = decide_again(box, TRIES, STEADY)
        if attempt is None:
            how = "did not come up" if box.state == "starting" else "did not stay up"
            await actions.fail_in(tx, deps, id, box.incarnation, f"it was started {TRIES} times and {how}")
            return
        await store.begin(tx, id, digest(token), attempt, deps.clock.now())
        await store.lose_commands(tx, id, "lost: the box's agent restarted", deps.clock.now())
        await tx.notify(f"box:{id}")
        box = await actions.find(tx, id)
        repo = await repos.repo_by_id(tx, box.repo)
        allowed = await limits.of_repo(tx, deps, box.repo)
    assert repo is not None  # a box refers to its repository
    mirror = repos.mirror_path(deps, repo.id)
    began = deps.clock.monotonic()
    log.info("box.starting", box=id, name=box.name, incarnation=box.incarnation)
    spec = BoxSpec(
        box=id,
        incarnation=box.incarnation,
        name=box.name,
        repository=f"{box.repo_owner}/{box.checkout or box.repo_name}",
        ref=box.ref,
        commit=box.commit,
        mirror=mirror,
        origin=repo.origin,
        token=token,
        network=box.network,
        allow=(*DEFAULT_ALLOW, *repo.allow),
        epoch=box.epoch,
        server=deps.agent_url,
        limits=allowed,
        equipment=equipment,
    )
    pinning = asyncio.create_task(deps.forge.pin(mirror, id, box.commit))  # nothing is pruned meanwhile
    try:
        started = await deps.boxes.start(spec)
        await pinning
    except (Interrupted, ForgeInterrupted) as error:
        log.warning("box.start_interrupted", box=id, reason=error.reason)
        async with deps.db.tx() as tx:
            await actions.agent_ended(tx, deps, id, box.incarnation, error.reason)
        return
    except StoreLost as error:
        log.warning("box.waits_for_environment", box=id, reason=error.reason)
        async with deps.db.tx() as tx:
            await actions.put_off(tx, id, box.incarnation)
            await environments.lost(tx, deps, box.repo, box.commit)
        return
    except (DriverError, ForgeError) as error:
        if decide_failed_start(box, error.reason) == "wait":
            log.warning("box.waits_for_room", box=id, reason=error.reason)
            async with deps.db.tx() as tx:
                await actions.put_off(tx, id, box.incarnation)
        else:
            await _fail(deps, box, error.reason)
        return
    finally:
        await asyncio.gather(pinning, return_exceptions=True)
    log.info("box.agent_started", box=id, seconds=round(deps.clock.monotonic() - began, 3))
    if started.lacks:
        async with deps.db.tx() as tx:
            await store.note(tx, id, " ".join(started.lacks))


async def _equipped(tx: Tx, deps: Deps, box: Box) -> tuple[bool, Equipment | None]:
    """Whether a box can be started now, and what it has beside the base.

    It waits for the environment of its commit, and fails with it; one with work in it only with what would fail again.
    One that has run before there were environments has the base, as it had.
    """
    found = await environments.of_head(tx, box.repo, box.commit)
    if found is None and box.state == "running":
        return True, None
    if found is None or found.state != "ready":
        if found is not None and found.state == "failed" and (box.state == "starting" or found.stays):
            failure = found.failure or "its environment could not be built"
            await actions.fail_in(tx, deps, box.id, box.incarnation, failure, stays=found.stays)
        else:
            await environments.want(tx, deps, box.repo, box.commit)
        return False, None
    made = found.made
    if made is None:
        return True, None
    seconds = deps.settings.environments.setup_for.total_seconds()
    return True, Equipment(Path(made.store), made.paths, made.env, made.setup, seconds)


async def _fail(deps: Deps, box: Box, reason: str) -> None:
    log.error("box.failed", box=box.id, reason=reason)
    async with deps.db.tx() as tx:
        await actions.fail_in(tx, deps, box.id, box.incarnation, reason)


async def _find(deps: Deps, box: str) -> Box | None:
    async with deps.db.tx() as tx:
        return await store.find(tx, box)
