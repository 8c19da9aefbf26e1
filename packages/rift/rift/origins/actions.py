"""What is done with origins: adding a repository, reading it again and again, looking ahead of a watch."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from keel import jobs
from keel.db import Tx
from keel.refusal import Refusal
from keel.secrecy import masked
from keel.ticking import Tick, beside
from rift.audit import Act, SystemAct, audited, refuse
from rift.deps import Deps
from rift.drivers.forge.protocol import Access, ForgeError
from rift.drivers.github.protocol import GitHubBusy, GitHubError
from rift.github import actions as github
from rift.origins import refusals, store
from rift.origins.decide import changes, name_of, rests_until, storable, url_of
from rift.origins.model import Synced
from rift.people import actions as people
from rift.people.model import Caller, Team
from rift.repos import actions as repos
from rift.repos.decide import ref_of, why_closed
from rift.repos.model import Repo, Watched
from rift.times import rfc3339

LOOK_FOR = timedelta(seconds=20)
"""Who reads an origin has it to itself for so long, and says again and again that it still does."""
LOOK_AHEAD_SECONDS = 20.0
"""How long rift_watch looks for a branch that Rift has not seen yet."""
SOON = timedelta(seconds=10)
"""A head that was read so long ago is good for a new watch."""
SYNC_WAITS = 120.0
"""How long `rift repo sync` waits for another process that reads the same origin, in seconds."""


async def access_of(deps: Deps, repo: Repo) -> Access | None:
    """What opens a repository's origin, beside what the host's own git knows; None where nothing is needed.

    Raises GitHubError and its kinds where GitHub gives no token; not to be called inside a transaction.
    """
    if repo.account is None:
        return None
    if not repo.url.startswith(f"{deps.settings.github.url}/"):
        raise GitHubError(
            f"{masked(repo.url)} is not at the GitHub that is set (Rift:Github:Url), whose token goes nowhere else."
        )
    return Access("x-access-token", await github.installation_token(deps, repo.account))


async def want(tx: Tx, repo: str) -> None:
    """Ask for a look at a repository's (id) origin, once this transaction commits."""
    await jobs.defer(tx, "origins.sync", once=f"sync:{repo}", lock=f"sync:{repo}", repo=repo)


# What admins do ------------------------------------------------------------


async def watch(deps: Deps, act: Act, repo: str, ref: str, warm: int = 1) -> Watched | Refusal:
    """Watch a branch, after a look at the origin where it is not known yet. Source: rift_watch."""
    await _look_ahead(deps, act.caller, repo, ref_of(ref))
    return await repos.watch(deps, act, repo, ref, warm)


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
    mirror = repos.mirror_path(deps, repo.id)
    try:
        heads = storable(await deps.forge.fetch(url, mirror))
        named = await deps.forge.default(url)
    except ForgeError as error:
        await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
        return await refuse(deps, act, refusals.cannot_fetch(repo.full, masked(url), masked(error.reason)))
    repo = replace(repo, default_branch=named if named in heads else None)
    async with audited(deps, act) as (tx, row):
        if await repos.put_new(tx, repo):
            await repos.let_move(tx, repo.id, changes({}, heads))
            return row.said(repo)
        lost = await _free(tx, owner_email, team, name)  # another one added it while we fetched
        row.said(lost)
    await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
    if isinstance(lost, Refusal):
        return lost
    raise LookupError(f"{repo.full} could neither be added nor found")


async def rename(deps: Deps, full: str, new: str) -> Repo | Refusal:
    """Give a repository that is not GitHub's another name. Source: `rift repo rename OWNER/NAME OWNER/NAME`."""
    act, name = SystemAct("rift repo rename", {"repo": full, "to": new}, deps.clock.monotonic()), name_of(new)
    if name is None:
        return await refuse(deps, act, refusals.bad_name(new))
    async with audited(deps, act) as (tx, row):
        named = await repos.added(tx, full)
        if isinstance(named, Refusal):
            return row.said(named)
        one = next((repo for repo in named if repo.account is None), None)
        if one is None:
            return row.said(refusals.named_there(named[0]))
        row.org = one.org
        there = await repos.in_org(tx, one.org, *name)
        if there is not None:
            return row.said(refusals.exists(there, "Its organization", masked(there.url)))
        await repos.put_name(tx, one.id, *name)
        for installation in await repos.installations(tx, one.org):
            await github.cover(tx, installation)  # one of GitHub's may have waited for the old name
        return row.said(await repos.repo_by_id(tx, one.id) or one)


async def sync(deps: Deps, full: str | None = None) -> list[Synced] | Refusal:
    """Read the origins of the repositories of this name, or of all, now. Source: `rift repo sync`."""
    async with audited(deps, SystemAct("rift repo sync", {"repo": full}, deps.clock.monotonic())) as (tx, row):
        named = row.said(await repos.added(tx, full))
    return named if isinstance(named, Refusal) else [await _sync_waiting(deps, repo) for repo in named]


# Reading origins ------------------------------------------------------------


async def sync_repo(deps: Deps, id: str, *, thorough: bool = False) -> Synced | None:
    """Read a repository's origin once and let its heads be what they are there. None when it is not there any more.

    One process reads an origin at a time; another finds that out and is `skipped`. The origin is asked for its heads
    first and fetched only when they moved, when the mirror was lost, or when `thorough`. When they moved, and while it
    is not known, it is asked for its default branch too; GitHub's stands in the list of what is covered. An origin that
    GitHub does not give now is not asked.
    """
    async with deps.db.tx() as tx:
        now = deps.clock.now()
        repo = await repos.repo_by_id(tx, id)
        if repo is not None and not repo.open:
            return Synced(repo, (), why_closed(repo))
        epoch = await store.begin_sync(tx, id, now, now + LOOK_FOR)
        known = await repos.heads_of(tx, id)
    if repo is None:
        return None
    if epoch is None:
        return Synced(repo, (), None, skipped=True)
    failure, heads, mirror, patience = None, known, repos.mirror_path(deps, id), None
    default = repo.default_branch
    try:
        async with beside(_hold(id, epoch), deps):
            access = await access_of(deps, repo)
            seen = None if thorough else storable(await deps.forge.heads(repo.url, access))
            if seen != known or (known and not await deps.forge.has(mirror)):
                await _is_it(deps, repo, access)
                heads = storable(await deps.forge.fetch(repo.url, mirror, access))
            if repo.forge == "local" and (seen != known or default not in heads):
                named = await deps.forge.default(repo.url, access)
                default = named if named in heads else None
    except GitHubBusy as error:
        failure, patience = f"{masked(error.reason)} It is read again at {rfc3339(error.until)}.", error.until
    except (ForgeError, GitHubError) as error:
        failure = masked(error.reason)
    except BaseException:
        async with deps.db.tx() as tx:
            await store.leave_sync(tx, id, epoch)
        raise
    return await _apply(deps, replace(repo, default_branch=default), epoch, heads, failure, patience)


async def _apply(
    deps: Deps, repo: Repo, epoch: int, heads: dict[str, str], failure: str | None, patience: datetime | None
) -> Synced:
    async with deps.db.tx() as tx:
        after, before = patience, await store.failures(tx, repo.id)
        if failure and repo.account is not None:
            every, now = deps.settings.github.poll_every, deps.clock.now()
            after = after or rests_until(before, every, now)
        if not await store.end_sync(tx, repo.id, epoch, deps.clock.now(), failure, after):
            return Synced(repo, (), None, skipped=True)
        if failure and repo.account is not None and not before and patience is None:
            await github.cover(tx, repo.account)  # it may be renamed, taken off the list, or gone
        if failure is None and repo.forge == "local":
            await repos.put_default(tx, repo.id, repo.default_branch)
        moved = () if failure else changes(await repos.heads_of(tx, repo.id), heads)
        if moved:
            await repos.let_move(tx, repo.id, moved)
        if moved or failure != repo.failure:
            await tx.notify(repos.topic(repo.org))
        await tx.notify(f"repo:{repo.id}")
        return Synced(await repos.repo_by_id(tx, repo.id) or repo, moved, failure)


async def _is_it(deps: Deps, repo: Repo, access: Access | None) -> None:
    """Raises GitHubError where another of GitHub's repositories has the name now: nothing of that one is ours.

    Whoever gives up a name, or a login, leaves it to anybody, until the next list of what is covered.
    """
    if repo.github_id is None or access is None:
        return
    there = await deps.github.repository(access.password, repo.full)
    if there.id != repo.github_id:
        raise GitHubError(f"{repo.full} is another repository at GitHub now, and the one it was has another name.")


async def _sync_waiting(deps: Deps, repo: Repo) -> Synced:
    """Read an origin, after whoever reads it now: what they see may be older than this call."""
    synced = await sync_in_turn(deps, repo.id, SYNC_WAITS, thorough=True)
    if synced is None:
        return Synced(repo, (), "it is not there any more")
    if synced.skipped:
        return replace(synced, failure=f"another process has been reading it for {SYNC_WAITS:g} s")
    return synced


async def sync_in_turn(deps: Deps, id: str, seconds: float, *, thorough: bool = False) -> Synced | None:
    """Read a repository's origin after whoever reads it now; `skipped` when they do for so long."""
    deadline = deps.clock.monotonic() + seconds
    with deps.signals.on(f"repo:{id}") as looked:
        while True:
            synced = await sync_repo(deps, id, thorough=thorough)
            if synced is None or not synced.skipped or deps.clock.monotonic() > deadline:
                return synced
            await looked.wait(1.0)


def _hold(id: str, epoch: int) -> Tick[Deps]:
    """Going on to be the one who reads this origin, however long git takes."""

    async def keep(deps: Deps) -> None:
        async with deps.db.tx() as tx:
            await store.keep_sync(tx, id, epoch, deps.clock.now() + LOOK_FOR)

    return Tick("origins.hold", LOOK_FOR.total_seconds() / 3, keep)


async def _look_ahead(deps: Deps, caller: Caller, repo: str, ref: str) -> None:
    """A branch pushed a moment ago may be watched: when an admin names one that is not known yet, look for it now.

    So may one of a repository that nobody has watched, and so nobody reads. Where that takes longer, it goes on as a
    job.
    """
    async with deps.db.tx() as tx:
        found = await repos.find_repo(tx, caller, repo)
        if isinstance(found, Refusal) or not found[1].admin or not found[0].open:
            return
        one = found[0]
        idle = one.account is not None and not await repos.watched_refs(tx, one.id)
        stale = idle and (one.synced_at is None or deps.clock.now() - one.synced_at > SOON)
        if not stale and ref in await repos.heads_of(tx, one.id):
            return
    try:
        async with asyncio.timeout(LOOK_AHEAD_SECONDS):
            await sync_in_turn(deps, one.id, LOOK_AHEAD_SECONDS)
    except TimeoutError:
        async with deps.db.tx() as tx:
            await want(tx, one.id)


async def _free(tx: Tx, owner_email: str | None, team: str | None, name: tuple[str, str]) -> str | Refusal:
    """The organization (its id) that a repository of this name can be added to."""
    owner = await people.find_owner(tx, owner_email) if team is None else await people.team_named(tx, team)
    if isinstance(owner, Refusal):
        return owner
    org, whose = (owner.id, owner.name) if isinstance(owner, Team) else (owner[1].org, owner[0].email)
    there = await repos.in_org(tx, org, *name)
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
