"""What is done with limits: a repository gets its own, and a box that starts is given what holds for it."""

from __future__ import annotations

from collections.abc import Sequence

from keel.db import Tx
from keel.refusal import Refusal
from rift.audit import SystemAct, audited
from rift.deps import Deps
from rift.drivers.boxes.protocol import Limits
from rift.limits import store
from rift.limits.decide import decide_change, settle
from rift.limits.model import Change, RepoLimits
from rift.names import LIMITS
from rift.repos import actions as repos


async def set_limits(deps: Deps, full: str, change: Change) -> RepoLimits | Refusal:
    """Change what a repository's boxes may use from their next start on; warm ones are made anew."""
    told = {"repo": full, "default": change.default, **change.texts}
    async with audited(deps, SystemAct("rift repo limits", told, deps.clock.monotonic())) as (tx, row):
        found = await repos.added(tx, full)
        if isinstance(found, Refusal):
            return row.said(found)
        own: dict[str, int] = {}
        changed = False
        for repo in found:
            before = await (store.own_held(tx, repo.id) if change.any else store.own(tx, repo.id))
            after = decide_change(repo.full, before, change)
            if isinstance(after, Refusal):
                return row.said(after)
            own = after
            if after != before:
                changed = True
                await store.put(tx, repo.id, after)
                await repos.renew(tx, deps, repo.id)
        return row.said(settle(full.strip(), own, _defaults(deps), changed=changed))


async def of_repo(tx: Tx, deps: Deps, repo: str) -> Limits:
    """What a box of a repository (its id) that starts now may use."""
    found = settle(repo, await store.own(tx, repo), _defaults(deps))
    return Limits(**found.values, own=tuple(sorted(found.own)))


async def look(deps: Deps, repos: Sequence[str]) -> dict[str, RepoLimits]:
    """What boxes of some repositories (their ids) may use, by repository. No record: it is a page's."""
    async with deps.db.look("limits") as tx:
        own = await store.own_of(tx, repos)
    return {repo: settle(repo, own.get(repo, {}), _defaults(deps)) for repo in repos}


def _defaults(deps: Deps) -> dict[str, int]:
    return {name: getattr(deps.settings.boxes, name) for name in LIMITS}
