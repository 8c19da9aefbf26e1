"""What is done with repositories. What takes `deps` is a use case; what takes `tx` is a part of another's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

from keel import jobs
from keel.db import Tx
from keel.refusal import Call, Refusal
from keel.secrecy import masked
from rift.audit import Act, SystemAct, audited, refuse
from rift.deps import Deps
from rift.drivers.forge.protocol import ForgeError
from rift.people import actions as people
from rift.people.model import Caller, Membership, Team
from rift.repos import refusals, store
from rift.repos.decide import (
    asked_for,
    by_org,
    changed,
    changes,
    decide_head,
    decide_repo,
    decide_warm,
    decide_watch,
    is_host,
    name_of,
    ref_of,
    storable,
    url_of,
)
from rift.repos.model import (
    Change,
    Network,
    OrgRepos,
    OrgView,
    Repo,
    RepoView,
    Synced,
    Unwatched,
    Watch,
    Watched,
    WatchedHead,
)

LOOK_FOR = timedelta(seconds=20)
"""Who reads an origin has it to itself for so long, and says again and again that it still does."""
LOOK_AHEAD_SECONDS = 20.0
"""How long rift_watch looks for a branch that Rift has not seen yet."""
SYNC_WAITS = 120.0
"""How long `rift repo sync` waits for another process that reads the same origin, in seconds."""


# What every member may ask ------------------------------------------------------------


async def look(deps: Deps, caller: Caller) -> tuple[OrgView, ...]:
    """Each of the caller's organizations with its repositories, for a page, which writes no record."""
    async with deps.db.look(caller.user) as tx:
        return await orgs_of(tx, caller)


async def orgs_of(tx: Tx, caller: Caller) -> tuple[OrgView, ...]:
    """Each of the caller's organizations with its members and repositories, their own first."""
    places = await people.memberships(tx, caller.user)
    names = {place.org: place.name for place in places}
    repos = [repo for repo in await store.theirs(tx, caller.user) if repo.org in names]
    views = await _views(tx, [(repo, names[repo.org]) for repo in repos])
    return by_org(places, await people.members(tx, caller.user), views)


async def branches_of(tx: Tx, repos: Sequence[str]) -> dict[str, list[str]]:
    """The names of the branches of each of these repositories (by id)."""
    return await store.branches(tx, repos)


async def list_org(deps: Deps, act: Act, org: str) -> OrgRepos | Refusal:
    """One organization's repositories with their watched refs. Source: rift_repos."""
    async with audited(deps, act) as (tx, row):
        member = await people.find_org(tx, act.caller, org)
        if isinstance(member, Refusal):
            return row.said(member)
        views = await _views(tx, [(repo, member.name) for repo in await store.of_org(tx, member.org)])
        return row.said(OrgRepos(member, tuple(views)))


async def find_repo(tx: Tx, caller: Caller, asked: str) -> tuple[Repo, Membership] | Refusal:
    """The caller's repository OWNER/NAME (or NAME, if only one has it), and their place in its organization."""
    asked = asked_for(asked)
    found = await store.named(tx, caller.user, asked.rpartition("/")[2])
    repo = decide_repo(asked, found, [one.full for one in found or await store.theirs(tx, caller.user)])
    if isinstance(repo, Refusal):
        return repo
    member = await people.role_in(tx, repo.org, caller.user)
    return (repo, member) if member else refusals.no_such_repository(asked, ())


async def find_watched(tx: Tx, deps: Deps, caller: Caller, repo: str, ref: str) -> WatchedHead | Refusal:
    """What a new box of `ref` starts from. Until the transaction ends the ref stays watched. Source: rift_vm_new."""
    found = await find_repo(tx, caller, repo)
    if isinstance(found, Refusal):
        return found
    one, member = found
    await store.keep_watch(tx, one.id, ref_of(ref))
    watches = await store.watches(tx, [one.id])
    return decide_head(one, ref_of(ref), watches, member.admin, member.name, deps.clock.now())


async def repo_by_id(tx: Tx, id: str) -> Repo | None:
    """A repository, whoever's it is."""
    return await store.find(tx, id)


# What pools ask ------------------------------------------------------------


async def watch_of(tx: Tx, repo: str, ref: str) -> Watch | None:
    """One watched ref of a repository (by id)."""
    return await store.watch(tx, repo, ref)


async def note_failure(tx: Tx, deps: Deps, repo: str, ref: str, commit: str, failure: str) -> None:
    """Why no box of this head can be made, whole; rift_repos and rift_vm_new say so until it is mended."""
    await store.put_failure(tx, repo, ref, commit, failure, deps.clock.now())


async def note_success(tx: Tx, repo: str, ref: str, commit: str) -> None:
    """A box of this head runs: its last failure is mended."""
    await store.drop_failure(tx, repo, ref, commit)


async def pool_moved(tx: Tx, repo: str, ref: str) -> None:
    """Ask for a pool's upkeep once this transaction commits: it makes what is missing and drains what is not wanted."""
    await jobs.defer(tx, "pools.fill", once=f"fill:{repo}:{ref}", lock=f"pool:{repo}:{ref}", repo=repo, ref=ref)


def mirror_path(deps: Deps, repo: str) -> Path:
    """Where the bare mirror of a repository (by id) stands."""
    return deps.data / "mirrors" / repo


# What admins do ------------------------------------------------------------


async def watch(deps: Deps, act: Act, repo: str, ref: str, warm: int = 1) -> Watched | Refusal:
    """Watch a branch, or change how many warm boxes it has. Source: rift_watch."""
    ref = ref_of(ref)
    await _look_ahead(deps, act.caller, repo, ref)
    async with audited(deps, act) as (tx, row):
        found = await _to_change(tx, act, repo, Call("rift_watch", {"repo": repo, "ref": ref, "warm": warm}))
        if isinstance(found, Refusal):
            return row.said(found)
        await store.lock(tx, found.id)
        head = decide_watch(found, ref, warm, await store.heads(tx, found.id))
        if isinstance(head, Refusal):
            return row.said(head)
        most = deps.settings.boxes.per_organization
        if too_warm := decide_warm(found, ref, warm, await store.kept_warm(tx, found.org), most):
            return row.said(too_warm)
        was = await store.watch(tx, found.id, ref)
        await store.put_watch(tx, found.id, ref, warm, deps.clock.now())
        await pool_moved(tx, found.id, ref)
        return row.said(Watched(found, ref, head, warm, was.warm if was else None))


async def unwatch(deps: Deps, act: Act, repo: str, ref: str) -> Unwatched | Refusal:
    """Stop watching a branch: warm boxes go, none can be claimed, claimed ones run on. Source: rift_unwatch."""
    ref = ref_of(ref)
    async with audited(deps, act) as (tx, row):
        found = await _to_change(tx, act, repo, Call("rift_unwatch", {"repo": repo, "ref": ref}))
        if isinstance(found, Refusal):
            return row.said(found)
        await store.lock(tx, found.id)
        if not await store.drop_watch(tx, found.id, ref):
            watched = [one.ref for one in await store.watches(tx, [found.id])]
            return row.said(refusals.unwatch_unwatched(found, ref, watched))
        await pool_moved(tx, found.id, ref)
        return row.said(Unwatched(found, ref, await store.unclaimed(tx, found.id, ref)))


# What the server's own commands do ------------------------------------------------------------


async def add_repo(
    deps: Deps, owner_email: str | None, full: str, origin: str, team: str | None = None
) -> Repo | Refusal:
    """Add a repository to a team, or to a person's own organization (without an address: the first platform admin's).

    `origin` is a git URL or a path; it is fetched before anything is kept, so what is wrong with it shows at once.
    Source: `rift repo add OWNER/NAME URL_OR_PATH`.
    """
    told = {"owner": owner_email, "org": team, "repo": full, "origin": masked(origin)}
    act = SystemAct("rift repo add", told, deps.clock.monotonic())
    name, url = name_of(full), await _located(origin)
    if name is None or isinstance(url, Refusal):
        return await refuse(deps, act, url if isinstance(url, Refusal) and name else refusals.bad_name(full))
    async with deps.db.tx() as tx:
        org = await _free(tx, owner_email, team, name)
    if isinstance(org, Refusal):
        return await refuse(deps, act, org)
    now = deps.clock.now()
    repo = Repo("repo_" + deps.ids.short(12), org, *name, url, "proxy", now, None, now)
    mirror = mirror_path(deps, repo.id)
    try:
        heads = storable(await deps.forge.fetch(url, mirror))
    except ForgeError as error:
        await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
        return await refuse(deps, act, refusals.cannot_fetch(repo.full, masked(url), masked(error.reason)))
    async with audited(deps, act) as (tx, row):
        if await store.insert(tx, repo):
            await store.move(tx, repo.id, changes({}, heads))
            return row.said(repo)
        lost = await _free(tx, owner_email, team, name)  # another one added it while we fetched
        row.said(lost)
    await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
    if isinstance(lost, Refusal):
        return lost
    raise LookupError(f"{repo.full} could neither be added nor found")


async def list_repos(deps: Deps) -> list[RepoView]:
    """Every repository there is. Source: `rift repo ls`."""
    async with deps.db.tx() as tx:
        return await _views(tx, await store.everything(tx))


async def sync(deps: Deps, full: str | None = None) -> list[Synced] | Refusal:
    """Read the origins of the repositories of this name, or of all, now. Source: `rift repo sync`."""
    async with audited(deps, SystemAct("rift repo sync", {"repo": full}, deps.clock.monotonic())) as (tx, row):
        named = row.said(await added(tx, full))
    return named if isinstance(named, Refusal) else [await _sync_waiting(deps, repo) for repo in named]


async def set_network(deps: Deps, full: str, change: Network) -> Repo | Refusal:
    """Change what a repository's boxes may reach from their next start on; warm ones are made anew."""
    act = SystemAct("rift repo network", {"repo": full, **asdict(change)}, deps.clock.monotonic())
    async with audited(deps, act) as (tx, row):
        for wrong in (host for host in change.allow if not is_host(host)):
            return row.said(refusals.bad_host(wrong, full))
        named, found = await added(tx, full), None
        for repo in [] if isinstance(named, Refusal) else named:
            found = await store.put_network(tx, repo.id, *changed(repo, change))
            if found != repo:
                await renew(tx, deps, repo.id)
        return row.said(found or refusals.no_such_added(full))


async def renew(tx: Tx, deps: Deps, repo: str) -> None:
    """What a repository's boxes get is another from now on: warm ones are neither claimed any more nor kept."""
    await store.boxes_changed(tx, repo, deps.clock.now())
    await jobs.defer(tx, "pools.renew", once=f"renew:{repo}", repo=repo)


async def added(tx: Tx, full: str | None) -> list[Repo] | Refusal:
    """The repositories of this name, in whichever organization, or all of them."""
    named = [repo for repo, _ in await store.everything(tx) if full is None or repo.full == full.strip()]
    return named if named or full is None else refusals.no_such_added(full)


# Reading origins ------------------------------------------------------------


async def sync_repo(deps: Deps, id: str, *, thorough: bool = False) -> Synced | None:
    """Read a repository's origin once and let its heads be what they are there. None when it is not there any more.

    One process reads an origin at a time; another finds that out and is `skipped`. The origin is asked for its heads
    first and fetched only when they moved, when the mirror was lost, or when `thorough`.
    """
    async with deps.db.tx() as tx:
        now = deps.clock.now()
        epoch = await store.begin_sync(tx, id, now, now + LOOK_FOR)
        repo = await store.find(tx, id)
        known = await store.heads(tx, id)
    if repo is None:
        return None
    if epoch is None:
        return Synced(repo, (), None, skipped=True)
    failure, heads = None, known
    try:
        async with _kept(deps, id, epoch):
            seen = None if thorough else storable(await deps.forge.heads(repo.url))
            if seen != known or (known and not await deps.forge.has(mirror_path(deps, id))):
                heads = storable(await deps.forge.fetch(repo.url, mirror_path(deps, id)))
    except ForgeError as error:
        failure = masked(error.reason)
    except BaseException:
        async with deps.db.tx() as tx:
            await store.leave_sync(tx, id, epoch)
        raise
    return await _apply(deps, repo, epoch, heads, failure)


async def _apply(deps: Deps, repo: Repo, epoch: int, heads: dict[str, str], failure: str | None) -> Synced:
    async with deps.db.tx() as tx:
        if not await store.end_sync(tx, repo.id, epoch, deps.clock.now(), failure):
            return Synced(repo, (), None, skipped=True)
        moved = () if failure else changes(await store.heads(tx, repo.id), heads)
        if moved:
            await _move(tx, repo.id, moved)
        await tx.notify(f"repo:{repo.id}")
        return Synced(await store.find(tx, repo.id) or repo, moved, failure)


async def _move(tx: Tx, repo: str, moved: tuple[Change, ...]) -> None:
    await store.move(tx, repo, moved)
    watched = {one.ref for one in await store.watches(tx, [repo])}
    for change in moved:
        if change.ref in watched:
            await pool_moved(tx, repo, change.ref)


async def _sync_waiting(deps: Deps, repo: Repo) -> Synced:
    """Read an origin, after whoever reads it now: what they see may be older than this call."""
    deadline = deps.clock.monotonic() + SYNC_WAITS
    with deps.signals.on(f"repo:{repo.id}") as looked:
        while True:
            synced = await sync_repo(deps, repo.id, thorough=True)
            if synced is None:
                return Synced(repo, (), "it is not there any more")
            if not synced.skipped:
                return synced
            if deps.clock.monotonic() > deadline:
                return replace(synced, failure=f"another process has been reading it for {SYNC_WAITS:g} s")
            await looked.wait(1.0)


@asynccontextmanager
async def _kept(deps: Deps, id: str, epoch: int) -> AsyncIterator[None]:
    """Go on being the one who reads this origin, however long git takes."""

    async def keep() -> None:
        while True:
            await asyncio.sleep(LOOK_FOR.total_seconds() / 3)
            async with deps.db.tx() as tx:
                await store.keep_sync(tx, id, epoch, deps.clock.now() + LOOK_FOR)

    keeper = asyncio.create_task(keep(), name=f"sync {id}")
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _look_ahead(deps: Deps, caller: Caller, repo: str, ref: str) -> None:
    """A branch pushed a moment ago may be watched: when an admin names one that is not known yet, look for it now."""
    async with deps.db.tx() as tx:
        found = await find_repo(tx, caller, repo)
        if isinstance(found, Refusal) or not found[1].admin or ref in await store.heads(tx, found[0].id):
            return
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK_AHEAD_SECONDS):
            await sync_repo(deps, found[0].id)


async def _to_change(tx: Tx, act: Act, repo: str, call: Call) -> Repo | Refusal:
    """The repository, if the caller may change it: members read, admins change."""
    found = await find_repo(tx, act.caller, repo)
    if isinstance(found, Refusal):
        return found
    one, member = found
    return people.admin_only(member, Call(call.tool, {**call.arguments, "repo": one.full}).text) or one


async def _views(tx: Tx, repos: list[tuple[Repo, str]]) -> list[RepoView]:
    watches = await store.watches(tx, [repo.id for repo, _ in repos])
    of = {repo.id: tuple(watch for watch in watches if watch.repo == repo.id) for repo, _ in repos}
    return [RepoView(repo, org, masked(repo.url), of[repo.id]) for repo, org in repos]


async def _free(tx: Tx, owner_email: str | None, team: str | None, name: tuple[str, str]) -> str | Refusal:
    """The organization (its id) that a repository of this name can be added to."""
    owner = await people.find_owner(tx, owner_email) if team is None else await people.team_named(tx, team)
    if isinstance(owner, Refusal):
        return owner
    org, whose = (owner.id, owner.name) if isinstance(owner, Team) else (owner[1].org, owner[0].email)
    there = next((repo for repo in await store.of_org(tx, org) if (repo.owner, repo.name) == name), None)
    return refusals.exists(there, whose, masked(there.url)) if there else org


async def _located(origin: str) -> str | Refusal:
    """The origin as the forge takes it: a URL as it is, a path made absolute."""
    url = url_of(origin.strip())
    if url is not None:
        return url
    path = await asyncio.to_thread(lambda: Path(origin.strip()).expanduser().resolve())
    if not await asyncio.to_thread(path.exists):
        return refusals.bad_origin(origin, f"there is no {path}")
    return str(path)
