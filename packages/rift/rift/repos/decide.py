"""What a repository argument means, what is watched, and what moved. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches

from keel.refusal import Refusal
from rift.names import HEAD_RESTS, WARM_MOST
from rift.people.model import Member, Membership
from rift.repos import refusals
from rift.repos.model import Account, Heads, Network, OrgView, Repo, RepoView, Watch, WatchedHead

BRANCHES_TOLD = 10
"""How many branches a refusal names at most."""


def ref_of(text: str) -> str:
    """A branch's short name; `refs/heads/main` is forgiven."""
    return asked_for(text).removeprefix("refs/heads/")


def asked_for(text: str) -> str:
    """A name as a caller gave it, fit to be looked for and to be told: what cannot be printed (a NUL) is U+FFFD."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text.strip())


def decide_repo(asked: str, found: Sequence[Repo], all_names: Sequence[str]) -> Repo | Refusal:
    """The repository that `asked` (OWNER/NAME, or a NAME that only one has) means.

    `found` are the caller's repositories whose name fits whatever the case, those of the caller's own organization
    first, and of two with one OWNER/NAME the first is meant; `all_names` are the names of all the caller's
    repositories, to suggest from. One that the App covers no more is meant only where no other is.
    """
    owner, slash, name = asked.strip().rpartition("/")
    found = [one for one in found if one.uncovered_at is None] or found
    for fold in (str, str.lower):
        wanted = (fold(owner), fold(name))
        fits = [one for one in found if fold(one.name) == wanted[1] and (not slash or fold(one.owner) == wanted[0])]
        distinct = list({repo.full: repo for repo in reversed(fits)}.values())
        if len(distinct) == 1:
            return distinct[0]
        if distinct:
            return refusals.which_repository(asked, sorted(distinct, key=lambda repo: repo.full))
    return refusals.no_such_repository(asked, close_to(asked, all_names))


def close_to(asked: str, names: Sequence[str]) -> list[str]:
    """At most five of `names` that somebody may have meant, the likeliest first."""
    by_lower = {name.lower(): name for name in names}
    wanted = asked.lower()
    close = get_close_matches(wanted, by_lower, n=5, cutoff=0.6)
    close += [lower for lower in by_lower if wanted and wanted in lower.split("/") and lower not in close]
    return [by_lower[lower] for lower in close[:5]]


def decide_open(repo: Repo, admin: bool, org: str) -> Refusal | None:
    """Why a repository of GitHub's may be neither watched nor give boxes now, with what mends it; None where it may."""
    if repo.removed_at is not None:
        return refusals.account_removed(repo, admin, org)
    if repo.suspended_at is not None:
        return refusals.account_suspended(repo)
    if repo.uncovered_at is not None:
        return refusals.uncovered(repo, org)
    return None if repo.enabled else refusals.not_enabled(repo, admin, org)


def why_closed(repo: Repo) -> str | None:
    """Why a repository of GitHub's gives no VMs now, in a few words."""
    if repo.removed_at is not None:
        return f"{repo.login} does not have the App any more"
    if repo.suspended_at is not None:
        return f"{repo.login} has the App suspended"
    if repo.uncovered_at is not None:
        return "the App does not cover it any more"
    return None if repo.enabled else f"Rift is not on for {repo.login}"


def decide_watch(repo: Repo, ref: str, warm: int, heads: Heads, org: str) -> str | Refusal:
    """The head to watch, or why the ref cannot be watched. Only admins of `org` come so far."""
    if not 0 <= warm <= WARM_MOST:
        return refusals.warm_out_of_range(repo.full, ref, warm)
    if closed := decide_open(repo, True, org):
        return closed
    head = heads.get(ref)
    if head is not None:
        return head
    if repo.synced_at is None:
        return refusals.being_read(repo, ref, warm)
    return refusals.no_such_ref(repo, ref, warm, close_to(ref, list(heads)), sorted(heads)[:BRANCHES_TOLD])


def decide_warm(repo: Repo, ref: str, warm: int, kept: Mapping[tuple[str, str], int], most: int) -> Refusal | None:
    """Whether an organization may keep so many warm boxes of a ref.

    `kept` is what its watched refs ask for now, by repository (id) and ref; fewer than before may always be had.
    """
    others = sum(count for pool, count in kept.items() if pool != (repo.id, ref))
    if warm <= kept.get((repo.id, ref), 0) or others + warm <= most:
        return None
    return refusals.too_warm(repo.full, ref, warm, others, most)


def decide_head(
    repo: Repo, ref: str, watches: Sequence[Watch], admin: bool, org: str, now: datetime
) -> WatchedHead | Refusal:
    """What a new box of `ref` starts from, or why there can be none. `org` is the organization's name to the caller.

    A failure at the head answers for a minute; then a box is tried again, for what failed may have been the machine's
    fault. One that stays answers until it is mended. Where warm boxes run all the same, they are given.
    """
    if closed := decide_open(repo, admin, org):
        return closed
    watch = next((one for one in watches if one.ref == ref), None)
    if watch is None:
        return refusals.not_watched(repo, ref, admin, org, [one.ref for one in watches][:BRANCHES_TOLD])
    if watch.head is None:
        return refusals.no_head(repo, ref, admin, org)
    rested = now - watch.failure_at if watch.failure_at else HEAD_RESTS
    if not claimable(watch) and (watch.failure_stays or rested < HEAD_RESTS):
        again = None if watch.failure_stays else (HEAD_RESTS - rested).total_seconds()
        return refusals.failed_head(repo, watch, admin, org, again)
    return WatchedHead(repo, ref, watch.head, watch.warm, org)


def claimable(watch: Watch) -> bool:
    """Whether a box can be had at this ref, as far as is known."""
    return watch.head is not None and (watch.failure is None or watch.ready > 0)


def main_of(branches: Sequence[str]) -> str:
    """The branch that most likely is the main one."""
    return next((name for name in ("main", "master", "trunk", "develop") if name in branches), branches[0])


_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{1,63}")


def is_host(text: str) -> bool:
    """Whether this is a host for an allow list: `pypi.org`, or `*.pypi.org` for every name below it."""
    return len(text) <= 253 and _HOST.fullmatch(text.lower()) is not None


def changed(repo: Repo, change: Network) -> tuple[str, list[str]]:
    """What a repository's boxes may reach after a change: the mode, and the hosts beside the usual ones."""
    kept = [host for host in repo.allow if host not in change.deny and host not in change.allow]
    return change.mode or repo.network, [*kept, *dict.fromkeys(change.allow)]


def by_org(
    places: Sequence[Membership],
    members: Sequence[Member],
    views: Sequence[RepoView],
    accounts: Mapping[str, Sequence[Account]],
    unwatched: Mapping[str, int],
) -> tuple[OrgView, ...]:
    """Each organization of a person with its members, its accounts (by its id) and its repositories."""
    return tuple(
        OrgView(
            place,
            tuple(member for member in members if member.org == place.org),
            tuple(view for view in views if view.repo.org == place.org),
            tuple(accounts.get(place.org, ())),
            unwatched.get(place.org, 0),
        )
        for place in places
    )
