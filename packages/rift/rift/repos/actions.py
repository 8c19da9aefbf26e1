"""What is done with repositories. What takes `deps` is a use case; what takes `tx` is a part of another's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from keel import jobs
from keel.db import Tx
from keel.refusal import Call, Refusal
from keel.secrecy import masked
from rift.audit import Act, SystemAct, audited
from rift.deps import Deps
from rift.people import actions as people
from rift.people.model import Caller, Membership
from rift.repos import refusals, store
from rift.repos.decide import (
    asked_for,
    by_org,
    changed,
    decide_head,
    decide_repo,
    decide_warm,
    decide_watch,
    is_host,
    ref_of,
)
from rift.repos.model import (
    Change,
    Network,
    OrgRepos,
    OrgView,
    Repo,
    RepoView,
    Unwatched,
    Watch,
    Watched,
    WatchedHead,
)

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
    accounts, others = await store.accounts(tx, list(names)), await store.in_store(tx, list(names))
    return by_org(places, await people.members(tx, caller.user), views, accounts, others)


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
        accounts = (await store.accounts(tx, [member.org])).get(member.org, [])
        return row.said(OrgRepos(member, tuple(views), tuple(accounts), tuple(await store.stored(tx, member.org))))


async def unwatched(tx: Tx, org: str, wanted: str, limit: int, offset: int) -> list[Repo]:
    """Some of the repositories that the App covers in an organization (by id) and no ref of which is watched, by name.

    Only those whose name has `wanted` in it.
    """
    return await store.stored(tx, org, wanted, limit, offset)


async def find_repo(tx: Tx, caller: Caller, asked: str) -> tuple[Repo, Membership] | Refusal:
    """The caller's repository OWNER/NAME (or NAME, if only one has it), and their place in its organization."""
    asked = asked_for(asked)
    found = await store.named(tx, caller.user, asked.rpartition("/")[2])
    repo = decide_repo(asked, found, [one.full for one in found] or await store.near(tx, caller.user, asked))
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


async def former_names(tx: Tx, id: str) -> list[str]:
    """What a repository (by id) was called before, where no other of its organization is called so now."""
    return await store.former_names(tx, id)


async def find_by_id(tx: Tx, caller: Caller, id: str) -> tuple[Repo, Membership] | Refusal:
    """The caller's repository with this id, and their place in its organization. Source: its pages."""
    repo = await store.find(tx, id)
    member = await people.role_in(tx, repo.org, caller.user) if repo else None
    return (repo, member) if repo and member else refusals.no_such_repository(asked_for(id), ())


async def repo_by_id(tx: Tx, id: str) -> Repo | None:
    """A repository, whoever's it is."""
    return await store.find(tx, id)


async def in_org(tx: Tx, org: str, owner: str, name: str) -> Repo | None:
    """The repository of this name in an organization (by id)."""
    return await store.in_org(tx, org, owner, name)


# What reading origins asks ------------------------------------------------------------


async def heads_of(tx: Tx, repo: str) -> dict[str, str]:
    """A repository's (id) branches and their heads, as last read."""
    return await store.heads(tx, repo)


async def watched_refs(tx: Tx, repo: str) -> list[str]:
    """The watched refs of a repository (by id)."""
    return [one.ref for one in await store.watches(tx, [repo])]


async def put_new(tx: Tx, repo: Repo) -> bool:
    """Add a repository; False when its organization has one of that name."""
    return await store.insert(tx, repo)


async def put_default(tx: Tx, repo: str, branch: str | None) -> None:
    """Note the default branch of a repository (by id) that is not GitHub's, as its origin tells it."""
    await store.put_default(tx, repo, branch)


async def put_name(tx: Tx, repo: str, owner: str, name: str) -> None:
    """Give a repository (by id) another name, which is free."""
    await store.put_name(tx, repo, owner, name)


async def installations(tx: Tx, org: str) -> list[int]:
    """The installations of the accounts that an organization (by id) has connected."""
    return [one.installation for one in (await store.accounts(tx, [org])).get(org, [])]


async def let_move(tx: Tx, repo: str, moved: Sequence[Change]) -> None:
    """Let a repository's (id) heads be what they have become; pools of watched refs that moved are asked to follow."""
    await store.move(tx, repo, moved)
    watched = {one.ref for one in await store.watches(tx, [repo])}
    for change in moved:
        if change.ref in watched:
            await pool_moved(tx, repo, change.ref)


# What pools ask ------------------------------------------------------------


async def watch_of(tx: Tx, repo: str, ref: str) -> Watch | None:
    """One watched ref of a repository (by id)."""
    return await store.watch(tx, repo, ref)


async def pooled(tx: Tx, repo: str, ref: str) -> Watch | None:
    """The same for whoever keeps boxes warm: None also while the repository may give no boxes, so that they drain."""
    found = await store.find(tx, repo)
    return await store.watch(tx, repo, ref) if found and found.open else None


async def note_failure(
    tx: Tx, deps: Deps, repo: str, ref: str, commit: str, failure: str, *, stays: bool = False
) -> None:
    """Why no box of this head can be made, whole; rift_repos and rift_vm_new say so until it is mended.

    One that `stays` would come again: nothing of the head is tried before the next rift_watch.
    """
    await store.put_failure(tx, repo, ref, commit, failure, stays, deps.clock.now())


async def note_success(tx: Tx, repo: str, ref: str, commit: str) -> None:
    """A box of this head runs: its last failure is mended."""
    await store.drop_failure(tx, repo, ref, commit)
    await tx.notify(f"repo:{repo}")


async def pool_moved(tx: Tx, repo: str, ref: str) -> None:
    """Ask for a pool's upkeep once this transaction commits: it makes what is missing and drains what is not wanted."""
    await jobs.defer(tx, "pools.fill", once=f"fill:{repo}:{ref}", lock=f"pool:{repo}:{ref}", repo=repo, ref=ref)


def mirror_path(deps: Deps, repo: str) -> Path:
    """Where the bare mirror of a repository (by id) stands."""
    return deps.data / "mirrors" / repo


# What admins do ------------------------------------------------------------


async def watch(deps: Deps, act: Act, repo: str, ref: str, warm: int = 1) -> Watched | Refusal:
    """Watch a branch that Rift knows, or change how many warm boxes it has. Source: rift_watch."""
    ref = ref_of(ref)
    async with audited(deps, act) as (tx, row):
        place = await _to_change(tx, act, repo, Call("rift_watch", {"repo": repo, "ref": ref, "warm": warm}))
        if isinstance(place, Refusal):
            return row.said(place)
        found, member = place
        await store.lock(tx, found.id)
        head = decide_watch(found, ref, warm, await store.heads(tx, found.id), member.name)
        if isinstance(head, Refusal):
            return row.said(head)
        most = deps.settings.boxes.per_organization
        if too_warm := decide_warm(found, ref, warm, await store.kept_warm(tx, found.org), most):
            return row.said(too_warm)
        was = await store.watch(tx, found.id, ref)
        await store.put_watch(tx, found.id, ref, warm, deps.clock.now())
        await pool_moved(tx, found.id, ref)
        await tx.notify(topic(found.org))
        return row.said(Watched(found, ref, head, warm, was.warm if was else None))


async def unwatch(deps: Deps, act: Act, repo: str, ref: str) -> Unwatched | Refusal:
    """Stop watching a branch: warm boxes go, none can be claimed, claimed ones run on. Source: rift_unwatch."""
    ref = ref_of(ref)
    async with audited(deps, act) as (tx, row):
        place = await _to_change(tx, act, repo, Call("rift_unwatch", {"repo": repo, "ref": ref}))
        if isinstance(place, Refusal):
            return row.said(place)
        found, _ = place
        await store.lock(tx, found.id)
        if not await store.drop_watch(tx, found.id, ref):
            watched = [one.ref for one in await store.watches(tx, [found.id])]
            return row.said(refusals.unwatch_unwatched(found, ref, watched))
        await pool_moved(tx, found.id, ref)
        await tx.notify(topic(found.org))
        return row.said(Unwatched(found, ref, await store.unclaimed(tx, found.id, ref)))


async def set_push(
    deps: Deps, act: Act | SystemAct, repo: str, *, default: bool | None = None, watched: bool | None = None
) -> Repo | Refusal:
    """Let a repository's boxes push to its default branch, or to watched refs, or not any more. None: as it is.

    `repo` is its id where an admin does it on its page, and its whole name where whoever runs the server does.
    Source: `rift repo push`.
    """
    async with audited(deps, act) as (tx, row):
        if isinstance(act, Act):
            place = await find_by_id(tx, act.caller, repo)
            if isinstance(place, Refusal):
                return row.said(place)
            if refused := people.admin_only(place[1], f"open {place[0].full} to pushes, on the Repositories page"):
                return row.said(refused)
            found: list[Repo] | Refusal = [place[0]]
        else:
            found = await added(tx, repo)
        if isinstance(found, Refusal):
            return row.said(found)
        for one in found:
            row.org = one.org
            await store.put_push(tx, one.id, default, watched)
            await tx.notify(topic(one.org))
        return row.said(await store.find(tx, found[0].id) or found[0])


# What the server's own commands do ------------------------------------------------------------


async def list_repos(deps: Deps) -> list[RepoView]:
    """Every repository in use: all that are not GitHub's, and of those the watched. Source: `rift repo ls`."""
    async with deps.db.tx() as tx:
        return await _views(tx, await store.everything(tx))


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
    """The repositories of this name, in whichever organization, or all that are in use."""
    if full is None:
        return [repo for repo, _ in await store.everything(tx)]
    owner, _, name = full.strip().partition("/")
    return await store.of_name(tx, owner, name) or refusals.no_such_added(full)


def topic(org: str) -> str:
    """What is notified when what an organization's lists tell has become another."""
    return f"repos:{org}"


async def _to_change(tx: Tx, act: Act, repo: str, call: Call) -> tuple[Repo, Membership] | Refusal:
    """The repository, if the caller may change it: members read, admins change. `call` does it."""
    found = await find_repo(tx, act.caller, repo)
    if isinstance(found, Refusal):
        return found
    one, member = found
    return people.admin_only(member, Call(call.tool, {**call.arguments, "repo": one.full}).text) or found


async def _views(tx: Tx, repos: list[tuple[Repo, str]]) -> list[RepoView]:
    watches = await store.watches(tx, [repo.id for repo, _ in repos])
    of = {repo.id: tuple(watch for watch in watches if watch.repo == repo.id) for repo, _ in repos}
    return [RepoView(repo, org, masked(repo.url), of[repo.id]) for repo, org in repos]
