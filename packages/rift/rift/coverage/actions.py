"""What is done with coverage: listing what the App covers in an account, and hearing from GitHub that it changed.

GitHub is asked between transactions, a page at a time; each page is kept, and the list counts once its last page is
there. So a list that GitHub interrupts goes on where it was, and nobody sees half of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from keel.db import Tx
from keel.secrecy import masked
from keel.ticking import Tick, beside
from rift.audit import note
from rift.coverage import store
from rift.coverage.decide import decide_cover, decide_heard, decide_revoked, decide_settled, rests_until
from rift.coverage.model import Covered, Listed, Listing
from rift.deps import Deps
from rift.drivers.github.protocol import GitHubBusy, GitHubDenied, GitHubError, GitHubMissing, RepositoryPage
from rift.github import actions as github
from rift.logins import actions as logins
from rift.origins import actions as origins
from rift.repos import actions as repos
from rift.times import rfc3339

LIST_FOR = timedelta(seconds=30)
"""Who lists an account has it to itself for so long, and says again and again that it still does."""
AGAIN = timedelta(seconds=30)
"""When an account is listed again whose repositories changed while they were listed."""
PAGES_MOST = 2000
"""A list of more pages is none."""
DELIVERIES_KEPT = timedelta(days=7)
"""GitHub sends a webhook again for three days at most."""


async def poll(deps: Deps) -> None:
    """Ask for a list of each account whose turn it is (Rift:Github:CoverEvery)."""
    async with deps.db.tx() as tx:
        for installation in await store.due(tx, deps.clock.now()):
            await github.cover(tx, installation)


async def forget(deps: Deps) -> None:
    """Forget webhooks that nobody sends again."""
    async with deps.db.tx() as tx:
        await store.forget_deliveries(tx, deps.clock.now() - DELIVERIES_KEPT)


async def heard(deps: Deps, delivery: str, event: str, body: Mapping[str, Any]) -> bool:
    """A webhook came, signed as GitHub signs: look again at what it is about. False for one that came before.

    Whatever it says, only what GitHub answers then counts: so it may come late, twice, or in another order.
    """
    look = decide_heard(event, body)
    async with deps.db.tx() as tx:
        if not await store.insert_delivery(tx, delivery, deps.clock.now()):
            return False
        if (account := decide_revoked(event, body)) is not None:
            await logins.look_again(tx, account)
        if look is None or not await store.is_known(tx, look.installation):
            return True
        if look.repository is None:
            await github.cover(tx, look.installation)
            return True
        for repo in await store.watched(tx, look.installation, look.repository):
            await origins.want(tx, repo)
    return True


async def cover(deps: Deps, installation: int) -> Covered | None:
    """List what the App covers in an account and let the repositories here be that.

    None while somebody else lists it, while GitHub wants patience, and when it is not an account of ours.
    """
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        one = await store.begin(tx, installation, now, now + LIST_FOR)
    if one is None:
        return None
    try:
        async with beside(_hold(one), deps):
            return await _cover(deps, one)
    except GitHubBusy as error:
        return await _rest(deps, one, f"{error.reason} It goes on at {rfc3339(error.until)}.", error)
    except GitHubError as error:
        return await _rest(deps, one, error.reason, error)
    except BaseException:
        async with deps.db.tx() as tx:
            await store.leave(tx, installation, one.epoch)
        raise


async def _cover(deps: Deps, one: Listing) -> Covered | None:
    if stands := await _stands(deps, one):
        return stands
    try:
        whole = await _list(deps, one)
    except GitHubDenied:
        if stands := await _stands(deps, one):  # suspended or removed while it was listed
            return stands
        raise
    return None if whole is None else await _apply(deps, one, whole)


async def _stands(deps: Deps, one: Listing) -> Covered | None:
    """How the installation itself stands; None where it can be listed. Raises GitHubError."""
    app = await github.app_of(deps)
    if app is None:
        raise GitHubError("This Rift has no GitHub App any more.")
    try:
        seen = await deps.github.installation(app, one.installation)
    except GitHubMissing:
        return await _over(deps, one)
    every = deps.settings.github.cover_every
    async with deps.db.tx() as tx:
        if not await store.is_mine(tx, one):
            return Covered(stands="waits")
        renamed = await github.note_login(tx, seen.account.id, seen.account.login)
        news = await github.note_suspended(tx, deps, one.installation, seen.suspended)
        if news:
            await note(
                tx, deps, "github.account", task=None, box=None, outcome="suspended" if seen.suspended else "ok",
                arguments={"account": seen.account.login}, org=one.org,
            )  # fmt: skip
            await _follow(tx, one)
        if renamed:
            await tx.notify(repos.topic(one.org))
        if not seen.suspended:
            return None
        await store.finish(tx, one, deps.clock.now(), deps.clock.now() + every, (), listed=False)
    return Covered(stands="suspended")


async def _over(deps: Deps, one: Listing) -> Covered | None:
    """The App is not in the account any more: it covers nothing there."""
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        if not await store.is_mine(tx, one):
            return Covered(stands="waits")
        gone = await store.of_account(tx, one.installation)
        await store.uncover(tx, gone, now)
        await store.finish(tx, one, now, now, (), listed=False)
        if await github.note_removed(tx, deps, one.installation):
            await note(
                tx, deps, "github.account", task=None, box=None, outcome="removed",
                arguments={"installation": one.installation}, org=one.org,
            )  # fmt: skip
        await _follow(tx, one)
    return Covered(uncovered=len(gone), stands="removed")


async def _list(deps: Deps, one: Listing) -> bool | None:
    """Bring the list's pages, from where it was. Whether it is whole; None when another list has begun meanwhile."""
    page, token = one.page, await github.installation_token(deps, one.installation)
    while True:
        try:
            found = await deps.github.repositories(token, page)
        except GitHubDenied:
            token = await github.installation_token(deps, one.installation, fresh=True)
            found = await deps.github.repositories(token, page)
        after = found.next or page + 1
        async with deps.db.tx() as tx:
            if not await store.put_page(tx, one, page, _listed(found), found.total, after):
                return None
            if found.next is None or page >= PAGES_MOST:
                return await store.is_whole(tx, one.installation)
        page = max(after, page + 1)


def _listed(page: RepositoryPage) -> list[Listed]:
    return [Listed(each.id, each.owner, each.name, each.default_branch, each.archived) for each in page.repositories]


async def _apply(deps: Deps, one: Listing, whole: bool) -> Covered:
    """Let the repositories be what the list says. One that moved between two pages is missing in a list that is not
    whole: nothing is taken off by such a one, and the account is listed again soon. One in which two have a name
    counts for nothing.
    """
    now, settings = deps.clock.now(), deps.settings.github
    async with deps.db.tx() as tx:
        if not await store.is_mine(tx, one):
            return Covered(stands="waits")
        await store.hold(tx, one.org)
        listed, soon = await store.listed(tx, one.installation), now + min(AGAIN, settings.cover_every)
        if not decide_settled(listed):
            await store.finish(tx, one, now, soon, None, listed=False)
            return Covered(stands="waits")
        known = await store.known(tx, one.installation, one.org, [each.github_id for each in listed])
        taken = {full: masked(url) for full, url in (await store.taken(tx, one.org, [row.id for row in known])).items()}
        plan = decide_cover(one.org, one.installation, listed, known, taken, whole)
        await store.uncover(tx, [row.id for row in plan.uncover], now)
        changes = [(row.id, each, _url(settings.url, each)) for row, each in plan.update]
        await store.update(tx, one.installation, changes)
        new = [("repo_" + deps.ids.short(12), each, _url(settings.url, each)) for each in plan.insert]
        await store.insert(tx, one.installation, one.org, new, now)
        await store.settle(tx, one.installation, settings.url)
        next = now + settings.cover_every if whole else soon
        await store.finish(tx, one, now, next, plan.untaken)
        await _follow(tx, one)
        for row, _ in plan.update:
            if await repos.watched_refs(tx, row.id):
                await origins.want(tx, row.id)
    return Covered(len(plan.insert), len(plan.update), len(plan.uncover))


def _url(base: str, one: Listed) -> str:
    """Where git reads it: at the GitHub that is set, whatever an answer says, for a token goes there."""
    return f"{base}/{one.full}.git"


async def _follow(tx: Tx, one: Listing) -> None:
    """Pools and pages look again: what may give boxes may be another."""
    for repo, ref in await store.pools(tx, one.installation):
        await repos.pool_moved(tx, repo, ref)
    await tx.notify(repos.topic(one.org))


async def _rest(deps: Deps, one: Listing, why: str, error: GitHubError) -> Covered:
    now, failure = deps.clock.now(), masked(why)
    after = error.until if isinstance(error, GitHubBusy) else None
    next = after or rests_until(one.failures, deps.settings.github.cover_every, now)
    async with deps.db.tx() as tx:
        await store.rest(tx, one, failure, next, after)
        await tx.notify(repos.topic(one.org))
    return Covered(stands="waits", failure=failure)


def _hold(one: Listing) -> Tick[Deps]:
    """Going on to be the one who lists this account, however long GitHub takes."""

    async def keep(deps: Deps) -> None:
        async with deps.db.tx() as tx:
            await store.keep(tx, one.installation, one.epoch, deps.clock.now() + LIST_FOR)

    return Tick("coverage.hold", LIST_FOR.total_seconds() / 3, keep)
