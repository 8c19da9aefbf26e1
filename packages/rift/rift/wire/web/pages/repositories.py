"""The Repositories page, which is live: accounts, repositories, watched refs, what is built, and where boxes push."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.responses import PlainTextResponse, Response

from keel.refusal import Call, Refusal
from rift.checklist.decide import adding, adding_to
from rift.deps import Deps
from rift.drivers.boxes.allow import DEFAULT_ALLOW
from rift.environments import actions as environments
from rift.environments.model import Environment
from rift.limits import actions as limits
from rift.limits.model import RepoLimits, spelled
from rift.names import WARM_MOST
from rift.people.model import Caller, Membership
from rift.repos import actions
from rift.repos.decide import claimable, why_closed
from rift.repos.model import Account, Repo, RepoView, Watch
from rift.sessions import actions as sessions
from rift.wire.web import live, refusals
from rift.wire.web.paging import Pager, page_of, pager
from rift.wire.web.visit import Page, Visit, headers

PATH = "/app/repositories"
PER_PAGE = 50
WANTED_MOST = 100
NETWORKS = {
    "none": "nothing",
    "proxy": f"{len(DEFAULT_ALLOW)} usual registries and forges",
    "open": "the public internet",
}
"""What boxes reach, by mode."""
NAMES = {"memory": "Memory", "processes": "Processes", "disk": "Disk", "cpu_shares": "CPU shares",
         "open_files": "Open files"}  # fmt: skip
"""The limits, as a person calls them."""
BUILT = {"waiting": "busy", "building": "busy", "ready": "ok", "failed": "bad", "cancelled": "quiet"}
"""How an environment's state looks."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of the lists is wanted: names with this in them, and which page of each."""

    wanted: str
    page: int

    @property
    def address(self) -> str:
        """The page's live part."""
        said = {name: value for name, value in (("q", self.wanted), ("page", str(self.page))) if value not in ("", "1")}
        return f"{PATH}/live?{urlencode(said)}" if said else f"{PATH}/live"


@dataclass(frozen=True, slots=True)
class ShownWatch:
    """A watched ref as the page shows it."""

    watch: Watch
    word: str
    """How it stands: ready, making, cold, failed, no such branch."""
    kind: str
    """How the word looks."""
    built: Environment | None
    """The environment of its head."""
    calls: tuple[tuple[str, str], ...]
    """What an admin asks an agent for, and the call."""


@dataclass(frozen=True, slots=True)
class ShownRepo:
    """A repository as the page shows it."""

    view: RepoView
    reach: str
    pushes: str
    closed: str | None
    """Why it gives no boxes now."""
    limits: tuple[tuple[str, str, bool], ...]
    """Each limit's name, value, and whether it is its own."""
    watches: tuple[ShownWatch, ...]
    watch_call: str
    """The call that watches another ref."""


@dataclass(frozen=True, slots=True)
class ShownAccount:
    """An account of GitHub's as the page shows it."""

    account: Account
    word: str
    kind: str
    enable: str
    """The call that turns Rift on for it."""


@dataclass(frozen=True, slots=True)
class ShownOrg:
    """An organization as the page shows it."""

    org: Membership
    accounts: tuple[ShownAccount, ...]
    repos: tuple[ShownRepo, ...]
    others: tuple[tuple[Repo, str], ...]
    """Those that the App covers and nobody watches, each with the call that watches it."""
    unwatched: int
    """How many of these there are, on all pages."""
    add: str
    """The command that gives it one more."""
    connect: str
    """The call that connects an account of GitHub's."""
    any: bool
    """Whether it has any repository, wanted or not."""


async def repositories(visit: Visit) -> Response | Refusal:
    """Per organization its repositories, their watched refs, and why the last box of one could not be made."""
    asked = _asked(visit)
    facts, _ = await _facts(visit.deps, visit.caller, asked)
    return visit.render("repositories.html", asked=asked, **facts)


async def events(visit: Visit) -> Response | Refusal:
    """The same, again and again while it is looked at, as long as the session goes on."""
    asked = _asked(visit)

    async def show() -> live.Shown:
        facts, topics = await _facts(visit.deps, visit.caller, asked)
        return visit.html("repositories_now.html", asked=asked, **facts), topics

    return going(visit, show)


async def set_push(visit: Visit) -> Response | Refusal:
    """Let a repository's boxes push to its default branch or to watched refs, or not any more."""
    id, which, allow = visit.request.path_params["repo"], visit.said("which"), visit.said("allow") == "yes"
    if which not in ("default", "watched"):
        return refusals.bad_form()
    what = {which: allow}
    act = visit.act("set push", repo=id, **what)
    repo = await actions.set_push(visit.deps, act, id, **what)
    if isinstance(repo, Refusal):
        return repo
    return visit.go(f"{PATH}?{urlencode({'q': repo.full})}", f"Boxes of {repo.full} push to {pushes(repo)}.")


def going(visit: Visit, show: Callable[[], Awaitable[live.Shown]]) -> Response:
    """A part of a page that goes on, where the person has a place for one more."""
    if visit.site.live.full(visit.caller.user):
        return PlainTextResponse("As many pages of yours are live as may be.", 429, {"Retry-After": "30"})
    told = live.events(
        visit.deps.signals,
        lambda: sessions.goes_on(visit.deps, visit.secret),
        show,
        visit.request.headers.get("last-event-id", ""),
    )
    return live.Events(visit.site.live, visit.caller.user, told, headers(visit.site))


def _asked(visit: Visit) -> Asked:
    return Asked(visit.asked("q").replace("\0", "")[:WANTED_MOST], page_of(visit))


async def _facts(deps: Deps, caller: Caller, asked: Asked) -> tuple[dict[str, Any], set[str]]:
    """What the templates are made from, and what is notified when that becomes another."""
    first = (asked.page - 1) * PER_PAGE
    more, orgs, topics = False, [], set()
    async with deps.db.look(caller.user) as tx:
        stand = await actions.orgs_of(tx, caller)
        for one in stand:
            fits = [view for view in one.repos if asked.wanted.lower() in view.repo.full.lower()]
            views = fits[first : first + PER_PAGE]
            others = (
                await actions.unwatched(tx, one.org.org, asked.wanted, PER_PAGE + 1, first) if one.unwatched else []
            )
            more = more or len(fits) > first + PER_PAGE or len(others) > PER_PAGE
            built = {
                view.repo.id: {made.commit: made for made in await environments.of_repo(tx, view.repo.id)}
                for view in views
                if view.watches
            }
            orgs.append((one, views, others[:PER_PAGE], built))
            topics |= {actions.topic(one.org.org)}
            topics |= {name for id in built for name in (f"repo:{id}", environments.topic(id))}
    bounds = await limits.look(deps, [view.repo.id for _, views, _, _ in orgs for view in views])
    shown_orgs = [
        ShownOrg(
            one.org,
            tuple(shown_account(account, one.org) for account in one.accounts),
            tuple(shown(view, bounds, built.get(view.repo.id, {})) for view in views),
            tuple((repo, watching(repo)) for repo in others),
            one.unwatched,
            adding(caller.email) if one.org.personal else adding_to(one.org.name),
            Call("rift_github_connect", {"org": one.org.name}).text,
            bool(one.repos or one.unwatched),
        )
        for one, views, others, built in orgs
    ]
    beside: Pager = pager(PATH, asked.page, more, q=asked.wanted)
    return {"orgs": shown_orgs, "pager": beside, "built": BUILT, "per_page": PER_PAGE}, topics


def shown_account(account: Account, org: Membership) -> ShownAccount:
    """An account with its word."""
    word, kind = ("enabled", "ok") if account.enabled else ("not enabled", "warn")
    if account.suspended_at is not None:
        word, kind = "suspended at GitHub", "bad"
    enable = Call("rift_github_enable", {"org": org.name, "account": account.login}).text
    return ShownAccount(account, word, kind, "" if account.enabled else enable)


def shown(view: RepoView, bounds: Mapping[str, RepoLimits], built: Mapping[str, Environment]) -> ShownRepo:
    """A repository with its words and calls."""
    repo, found = view.repo, bounds[view.repo.id]
    reach = NETWORKS.get(repo.network, repo.network)
    if repo.network == "proxy" and repo.allow:
        reach = f"{reach}, and {', '.join(repo.allow)}"
    return ShownRepo(
        view,
        reach,
        pushes(repo),
        why_closed(repo),
        tuple((NAMES[name], spelled(name, value), name in found.own) for name, value in found.values.items()),
        tuple(shown_watch(repo, watch, built.get(watch.head or "")) for watch in view.watches),
        watching(repo, "<branch>"),
    )


def watching(repo: Repo, ref: str | None = None) -> str:
    """The call that watches a ref of a repository: its default branch where none is named."""
    return Call("rift_watch", {"repo": repo.full, "ref": ref or repo.default_branch or "<branch>", "warm": 1}).text


def pushes(repo: Repo) -> str:
    """Where its boxes may push, in words."""
    kinds = (("its default branch", repo.push_default), ("watched refs", repo.push_watched))
    barred = [what for what, open in kinds if not open]
    return "any branch" + (f" but {' and '.join(barred)}" if barred else "")


def shown_watch(repo: Repo, watch: Watch, built: Environment | None) -> ShownWatch:
    """A watched ref with its word and calls."""
    word, kind = stands(watch, built)
    where = {"repo": repo.full, "ref": watch.ref}
    calls = [(f"Stop watching {watch.ref}", Call("rift_unwatch", where).text)]
    if watch.failure and watch.head:
        calls = [(f"Try {watch.ref} again", Call("rift_watch", {**where, "warm": watch.warm}).text), *calls]
    elif watch.head and watch.warm < WARM_MOST:
        more = Call("rift_watch", {**where, "warm": watch.warm + 1})
        calls = [(f"Keep {watch.warm + 1} boxes of {watch.ref} warm", more.text), *calls]
    if not repo.open:
        word, kind, calls = "drains", "quiet", calls[-1:]
    return ShownWatch(watch, word, kind, built, tuple(calls))


def stands(watch: Watch, built: Environment | None = None) -> tuple[str, str]:
    """How a watched ref stands, in words and in looks."""
    if watch.head is None:
        return "no such branch", "bad"
    if not claimable(watch):
        return "failed", "bad"
    if watch.ready:
        return "ready", "ok" if watch.ready >= watch.warm else "busy"
    if built is not None and built.state in ("waiting", "building"):
        return "building", "busy"
    return ("making warm boxes", "busy") if watch.warm else ("cold starts", "quiet")


PAGES = (
    Page(PATH, repositories),
    Page(f"{PATH}/live", events),
    Page(f"{PATH}/{{repo}}/push", post=set_push),
)
