"""The Repositories page: what each organization of the person has. It changes nothing: agents and the operator do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from keel.refusal import Call, Refusal
from rift.checklist.decide import adding, adding_to
from rift.drivers.boxes.allow import DEFAULT_ALLOW
from rift.limits import actions as limits
from rift.limits.model import RepoLimits, spelled
from rift.names import WARM_MOST
from rift.people.model import Membership
from rift.repos import actions
from rift.repos.decide import claimable
from rift.repos.model import RepoView, Watch
from rift.wire.web.visit import Page, Visit

NETWORKS = {
    "none": "nothing",
    "proxy": f"{len(DEFAULT_ALLOW)} usual registries and forges",
    "open": "the public internet",
}
"""What boxes reach, by mode."""
NAMES = {"memory": "Memory", "processes": "Processes", "disk": "Disk", "cpu_shares": "CPU shares",
         "open_files": "Open files"}  # fmt: skip
"""The limits, as a person calls them."""


@dataclass(frozen=True, slots=True)
class ShownWatch:
    """A watched ref as the page shows it."""

    watch: Watch
    word: str
    """How it stands: ready, making, cold, failed, no such branch."""
    kind: str
    """How the word looks."""
    calls: tuple[tuple[str, str], ...]
    """What an admin asks an agent for, and the call."""


@dataclass(frozen=True, slots=True)
class ShownRepo:
    """A repository as the page shows it."""

    view: RepoView
    reach: str
    limits: tuple[tuple[str, str, bool], ...]
    """Each limit's name, value, and whether it is its own."""
    watches: tuple[ShownWatch, ...]
    watch_call: str
    """The call that watches another ref."""


@dataclass(frozen=True, slots=True)
class ShownOrg:
    """An organization as the page shows it."""

    org: Membership
    repos: tuple[ShownRepo, ...]
    add: str
    """The command that gives it one more."""


async def repositories(visit: Visit) -> Response | Refusal:
    """Per organization its repositories, their watched refs, and why the last box of one could not be made."""
    stand = await actions.look(visit.deps, visit.caller)
    ids = [view.repo.id for org in stand for view in org.repos]
    bounds = await limits.look(visit.deps, ids)
    orgs = [
        ShownOrg(
            one.org,
            tuple(shown(view, bounds) for view in one.repos),
            adding(visit.caller.email) if one.org.personal else adding_to(one.org.name),
        )
        for one in stand
    ]
    return visit.render("repositories.html", orgs=orgs)


def shown(view: RepoView, bounds: Mapping[str, RepoLimits]) -> ShownRepo:
    """A repository with its words and calls."""
    repo, found = view.repo, bounds[view.repo.id]
    reach = NETWORKS.get(repo.network, repo.network)
    if repo.network == "proxy" and repo.allow:
        reach = f"{reach}, and {', '.join(repo.allow)}"
    return ShownRepo(
        view,
        reach,
        tuple((NAMES[name], spelled(name, value), name in found.own) for name, value in found.values.items()),
        tuple(shown_watch(repo.full, watch) for watch in view.watches),
        Call("rift_watch", {"repo": repo.full, "ref": "<branch>", "warm": 1}).text,
    )


def shown_watch(repo: str, watch: Watch) -> ShownWatch:
    """A watched ref with its word and calls."""
    word, kind = stands(watch)
    where = {"repo": repo, "ref": watch.ref}
    calls = [(f"Stop watching {watch.ref}", Call("rift_unwatch", where).text)]
    if watch.failure and watch.head:
        calls = [(f"Try {watch.ref} again", Call("rift_watch", {**where, "warm": watch.warm}).text), *calls]
    elif watch.head and watch.warm < WARM_MOST:
        more = Call("rift_watch", {**where, "warm": watch.warm + 1})
        calls = [(f"Keep {watch.warm + 1} boxes of {watch.ref} warm", more.text), *calls]
    return ShownWatch(watch, word, kind, tuple(calls))


def stands(watch: Watch) -> tuple[str, str]:
    """How a watched ref stands, in words and in looks."""
    if watch.head is None:
        return "no such branch", "bad"
    if not claimable(watch):
        return "failed", "bad"
    if watch.ready:
        return "ready", "ok" if watch.ready >= watch.warm else "busy"
    return ("making warm boxes", "busy") if watch.warm else ("cold starts", "quiet")


PAGES = (Page("/app/repositories", repositories),)
