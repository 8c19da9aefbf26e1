"""What is done with secrets. What takes `deps` is a use case; what takes `tx` is a part of another's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import structlog

from keel.db import Tx
from keel.refusal import Refusal
from keel.vault import VaultTrouble
from rift.audit import Act, Row, SystemAct, audited, refuse
from rift.deps import Deps
from rift.people import actions as people
from rift.people.model import Caller, Membership
from rift.repos import actions as repos
from rift.repos.model import Repo
from rift.secrets import refusals, store
from rift.secrets.decide import decide_name, decide_set, decide_value, masked
from rift.secrets.model import Changed, Counted, Delivery, Removed, RepoSecrets, Sealed, Secret, about

log = structlog.get_logger()

SEALED = store.SEALED
"""The sealed values, for `rift.sealed`."""

# What every member may see ------------------------------------------------------------


async def look(deps: Deps, caller: Caller) -> tuple[Counted, ...]:
    """The repositories of the caller's organizations, each with how many secrets it has. No record: it is a page's."""
    async with deps.db.look(caller.user) as tx:
        places = await repos.orgs_of(tx, caller)
        found = [(view.repo, org.org) for org in places for view in org.repos]
        counts = await store.counted(tx, [repo.id for repo, _ in found])
    return tuple(Counted(repo, place, counts.get(repo.id, 0)) for repo, place in found)


async def of_repo(deps: Deps, caller: Caller, repo: str) -> RepoSecrets | Refusal:
    """The secrets of a repository of the caller's, by its id or by OWNER/NAME: names, and when set. No record."""
    async with deps.db.look(caller.user) as tx:
        found = await _theirs(tx, caller, repo)
        if isinstance(found, Refusal):
            return found
        return RepoSecrets(*found, tuple(await _listed(tx, deps, found[0].id)))


async def _theirs(tx: Tx, caller: Caller, repo: str) -> tuple[Repo, Membership] | Refusal:
    find = repos.find_repo if "/" in repo else repos.find_by_id
    return await find(tx, caller, repo)


async def _listed(tx: Tx, deps: Deps, repo: str) -> list[Secret]:
    try:
        keys = deps.vault.ring.held()
    except VaultTrouble as trouble:
        log.error("secrets.vault", reason=str(trouble))
        keys = None
    here = keys.by_id if keys else ()
    return [
        Secret(str(row["name"]), row["bytes"], row["set_by"], row["set_at"], bytes(row["key"]) not in here)
        for row in await store.listed(tx, repo)
    ]


# What admins do ------------------------------------------------------------


async def put(deps: Deps, act: Act, repo: str, name: str, value: str) -> Changed | Refusal:
    """Set a secret of a repository of the caller's, or change it. Boxes' next commands have it."""
    if (wrong := _wrong(name, value, f"set it on {_page(repo)}")) is not None:
        return await refuse(deps, act, wrong)
    async with audited(deps, act) as (tx, row):
        found = await _to_change(tx, act, row, repo, f"set {name} on {_page(repo)}")
        if isinstance(found, Refusal):
            return row.said(found)
        return row.said(await _put(tx, deps, found, name, value, act.caller))


async def remove(deps: Deps, act: Act, repo: str, name: str) -> Removed | Refusal:
    """Remove a secret of a repository of the caller's. Boxes' next commands do not have it."""
    async with audited(deps, act) as (tx, row):
        found = await _to_change(tx, act, row, repo, f"remove a secret on {_page(repo)}")
        if isinstance(found, Refusal):
            return row.said(found)
        return row.said(await _remove(tx, found, name))


async def _to_change(tx: Tx, act: Act, row: Row, repo: str, ask: str) -> Repo | Refusal:
    found = await _theirs(tx, act.caller, repo)
    if isinstance(found, Refusal):
        return found
    one, place = found
    row.org = one.org
    return people.admin_only(place, ask) or one


# What the server's own commands do ------------------------------------------------------------


async def operator_look(deps: Deps, full: str) -> list[Secret] | Refusal:
    """The secrets of the one repository of this name. Source: `rift secret ls`."""
    async with deps.db.tx() as tx:
        found = await _added(tx, full)
        return found if isinstance(found, Refusal) else await _listed(tx, deps, found.id)


async def operator_put(deps: Deps, full: str, name: str, value: str) -> Changed | Refusal:
    """Set a secret of the one repository of this name. Source: `rift secret set`."""
    act = _operator(deps, "rift secret set", full, name)
    if (wrong := _wrong(name, value, f"`rift secret set {full} NAME`")) is not None:
        return await refuse(deps, act, wrong)
    async with audited(deps, act) as (tx, row):
        found = await _added(tx, full)
        if isinstance(found, Refusal):
            return row.said(found)
        row.org = found.org
        return row.said(await _put(tx, deps, found, name, value, None))


async def operator_remove(deps: Deps, full: str, name: str) -> Removed | Refusal:
    """Remove a secret of the one repository of this name. Source: `rift secret rm`."""
    async with audited(deps, _operator(deps, "rift secret rm", full, name)) as (tx, row):
        found = await _added(tx, full)
        if isinstance(found, Refusal):
            return row.said(found)
        row.org = found.org
        return row.said(await _remove(tx, found, name))


async def _added(tx: Tx, full: str) -> Repo | Refusal:
    found = await repos.added(tx, full)
    if isinstance(found, Refusal):
        return found
    return found[0] if len(found) == 1 else refusals.which_repository(full, len(found))


def _operator(deps: Deps, command: str, full: str, name: str) -> SystemAct:
    told = {"repo": full, "name": name if decide_name(name, "") is None else ""}  # else it may be the value
    return SystemAct(command, told, deps.clock.monotonic())


# What both do ------------------------------------------------------------


def _wrong(name: str, value: str, again: str) -> Refusal | None:
    return decide_name(name, again) or decide_value(name, value, again)


def _page(repo: str) -> str:
    return refusals.PAGE if "/" in repo else f"{refusals.PAGE}/{repo}"


async def _put(tx: Tx, deps: Deps, repo: Repo, name: str, value: str, by: Caller | None) -> Changed | Refusal:
    have = await store.held(tx, repo.id)
    refused = decide_set(repo.full, name, value, have, _page(repo.id))
    if refused is not None:
        return refused
    try:
        sealed = Sealed(name, deps.vault.seal(value.encode(), about(repo.id, name)))
    except VaultTrouble as trouble:
        log.error("secrets.vault", reason=str(trouble))
        return refusals.unusable()
    size, now = len(value.encode()), deps.clock.now()
    await store.put(tx, repo.id, sealed, size, by.user if by else None, now)
    return Changed(repo, Secret(name, size, by.email if by else None, now), name not in have)


async def _remove(tx: Tx, repo: Repo, name: str) -> Removed | Refusal:
    await store.held(tx, repo.id)
    if decide_name(name, "") is not None or not await store.remove(tx, repo.id, name):
        return refusals.no_such_secret(repo.full, name, _page(repo.id))
    return Removed(repo, name)


# What boxes get ------------------------------------------------------------


async def delivery(tx: Tx, deps: Deps, box: str) -> Delivery | None:
    """What the commands of a box that start now are to have; None without such a box.

    A value whose key is not here is left out, and logged: the others are as good as before.
    """
    found = await store.of_box(tx, box)
    if found is None:
        return None
    repo, version, sealed = found
    return Delivery(version, dict(_opened(deps, repo, sealed)))


async def hiding(tx: Tx, deps: Deps, repo: str) -> Callable[[str], str] | None:
    """What makes a text one that a record may keep: `***` for each value of a repository's (id) secrets in it.

    None where it has none.
    """
    return _masking([value for _, value in _opened(deps, repo, await store.of_repo(tx, repo))])


async def hiding_in(tx: Tx, deps: Deps, task: str) -> Callable[[str], str] | None:
    """The same for a call within a task that reached none of its boxes: of all their repositories."""
    found = await store.of_task(tx, task)
    return _masking([value for repo, one in found for _, value in _opened(deps, repo, [one])])


def _masking(values: Sequence[str]) -> Callable[[str], str] | None:
    return partial(masked, values=values) if values else None


def _opened(deps: Deps, repo: str, sealed: Iterable[Sealed]) -> Iterable[tuple[str, str]]:
    for one in sealed:
        try:
            yield one.name, deps.vault.open(one.sealed, about(repo, one.name)).decode()
        except VaultTrouble as trouble:
            log.error("secrets.not_opened", repo=repo, secret=one.name, reason=str(trouble))
