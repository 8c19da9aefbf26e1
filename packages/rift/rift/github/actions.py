"""What is done with accounts of GitHub's. GitHub is asked between transactions, never in one.

Who connects an account shows that it is theirs: their own user, or an organization that they own. That somebody
reaches an installation is not enough, as whoever may read one repository of it does.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

from keel.db import Tx
from keel.ids import digest
from keel.jobs import defer
from keel.refusal import Call, Refusal
from keel.vault import VaultTrouble
from rift.audit import Act, audited, refuse
from rift.deps import Deps
from rift.drivers.github.protocol import (
    Account,
    App,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    Installation,
    UserTokens,
)
from rift.github import refusals, store
from rift.github.decide import decide_enable, decide_fit
from rift.github.model import Back, Connected, Found, GitHubAccount, Install, Requested
from rift.logins import actions as logins
from rift.logins import refusals as logins_refusals
from rift.logins.actions import person_token
from rift.logins.model import Login
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.model import Caller, Membership
from rift.registration import actions as registration
from rift.registration import refusals as registration_refusals
from rift.registration.actions import app_of

__all__ = [
    "accounts_of", "app_of", "came_back", "connect", "connect_found", "cover", "disable", "enable",
    "everything", "found", "installation_token", "note_login", "note_removed", "note_suspended", "person_token",
]  # fmt: skip

CONNECT_FOR = timedelta(hours=1)
PAGE = "/app/organizations/{org}/github"


# What others need -----------------------------------------------------------------------------------------------------


async def installation_token(deps: Deps, installation: int, *, fresh: bool = False) -> str:
    """What opens an installation's repositories, good for five minutes at least; `fresh`: none that was given before.

    Raises GitHubError and its kinds: GitHubDenied where the App is suspended, GitHubMissing where it is not any more.
    """
    app = await app_of(deps)
    if app is None:
        raise GitHubError("this Rift has no GitHub App")
    return (await deps.github.installation_token(app, installation, fresh=fresh)).value


async def accounts_of(tx: Tx, org: str) -> list[GitHubAccount]:
    """The accounts of an organization (by id), removed ones last."""
    return await store.of_org(tx, org)


async def everything(deps: Deps) -> list[GitHubAccount]:
    """Every account. Source: `rift github status`."""
    async with deps.db.tx() as tx:
        return await store.everything(tx)


async def note_suspended(tx: Tx, deps: Deps, installation: int, suspended: bool) -> bool:
    """Note what GitHub says of an installation; whether that is news."""
    return await store.put_suspended(tx, installation, deps.clock.now() if suspended else None)


async def note_removed(tx: Tx, deps: Deps, installation: int) -> bool:
    """Note that an installation is no more; whether that is news."""
    return await store.put_removed(tx, installation, deps.clock.now())


async def note_login(tx: Tx, account_id: int, login: str) -> bool:
    """Note the name that an account has now; whether that is news."""
    return bool(await store.put_login(tx, account_id, login))


async def cover(tx: Tx, installation: int) -> None:
    """Ask for the list of what the App covers in an account, once this transaction commits."""
    about = f"cover:{installation}"
    await defer(tx, "coverage.cover", once=about, lock=about, installation=installation)


# Connecting -----------------------------------------------------------------------------------------------------------


async def connect(deps: Deps, act: Act, org: str) -> Install | Connected | Refusal:
    """Where to install the App for an organization; or the account that has it already and could be nothing else.

    Source: rift_github_connect.
    """
    try:
        ready = await _ready(deps, act.caller, org)
        if isinstance(ready, Refusal):
            return await refuse(deps, act, ready)
        place, app, mine = ready
        seen = await _connectable(deps, app, act.caller, place, mine) if mine else []
    except GitHubError as error:
        return await refuse(deps, act, registration.trouble(deps, error))
    if isinstance(seen, GitHubAccount):
        async with audited(deps, act) as (_, row):
            row.org = place.org
            return Connected(place.name, seen, new=False)
    if len(seen) == 1:
        return await _bind(deps, act, place, seen[0])
    state = deps.ids.token()
    async with audited(deps, act) as (tx, row):
        row.org = place.org
        await store.insert_connect(tx, digest(state), act.caller.user, place.org, deps.clock.now() + CONNECT_FOR)
    others = tuple(one.account.login for one in seen)
    page = f"{deps.settings.server.address}{PAGE.format(org=place.org)}"
    return Install(place.name, f"{app.html_url}/installations/new?{urlencode({'state': state})}", others, page)


async def found(deps: Deps, caller: Caller, org: str) -> list[Found] | Refusal:
    """The installations that a person could connect to an organization of theirs. Source: its page."""
    try:
        ready = await _ready(deps, caller, org)
        if isinstance(ready, Refusal):
            return ready
        place, app, mine = ready
        seen = await _connectable(deps, app, caller, place, mine) if mine else []
    except GitHubError as error:
        return registration.trouble(deps, error)
    return [] if isinstance(seen, GitHubAccount) else [Found(one.id, one.account.login) for one in seen]


async def connect_found(deps: Deps, act: Act, org: str, installation: int) -> Connected | Refusal:
    """Connect one of those. Source: the page."""
    try:
        ready = await _ready(deps, act.caller, org)
        if isinstance(ready, Refusal):
            return await refuse(deps, act, ready)
        place, app, mine = ready
        if mine is None:
            return await refuse(deps, act, logins_refusals.no_login())
        seen = await _connectable(deps, app, act.caller, place, mine)
    except GitHubError as error:
        return await refuse(deps, act, registration.trouble(deps, error))
    one = None if isinstance(seen, GitHubAccount) else next((one for one in seen if one.id == installation), None)
    if one is None:
        return await refuse(deps, act, refusals.not_yours(mine.login, place.name))
    return await _bind(deps, act, place, one)


async def came_back(deps: Deps, act: Act, back: Back) -> Connected | Requested | Refusal:
    """Connect what a person has installed. Source: the address that GitHub sends their browser back to.

    The state is good once, and for who began; what the address says beside it is asked of GitHub, as the person.
    """
    user, now = act.caller.user, deps.clock.now()
    async with deps.db.tx(user) as tx:
        org = await store.take_connect(tx, digest(back.state), user, now) if back.state else None
        place = await people.role_in(tx, org, user) if org is not None else None
    if place is None:
        return await refuse(deps, act, refusals.connect_over())
    if refused := people.admin_only(place, Call("rift_github_connect", {"org": place.name}).text):
        return await refuse(deps, act, refused)
    if back.setup == "request":
        async with audited(deps, act) as (_, row):
            row.org = place.org
            return Requested(place.org)
    if not back.code or back.installation is None:
        return await refuse(deps, act, refusals.connect_over(place.name))
    try:
        return await _shown(deps, act, place, back.code, back.installation)
    except GitHubError as error:
        return await refuse(deps, act, registration.trouble(deps, error))
    except VaultTrouble as error:
        return await refuse(deps, act, registration_refusals.away(str(error)))


async def _shown(deps: Deps, act: Act, place: Membership, code: str, id: int) -> Connected | Refusal:
    """The installation of this number, if who has the code may connect it."""
    app = await app_of(deps)
    if app is None:
        return await refuse(deps, act, registration_refusals.no_app())
    try:
        tokens = await deps.github.exchange(app, code)
    except GitHubDenied:
        return await refuse(deps, act, refusals.connect_over(place.name))
    them = await deps.github.user(tokens.access)
    reached = await deps.github.user_installations(tokens.access)
    one = next((one for one in reached if one.id == id), None)
    if one is None:
        return await refuse(deps, act, refusals.not_yours(them.login, place.name))
    if refused := decide_fit(place, one.account.login, one.account.kind, one.account.id, them.id):
        return await refuse(deps, act, refused)
    if one.account.kind == "Organization":
        if one.suspended:
            return await refuse(deps, act, refusals.suspended(one.account.login))
        if not await _owns(deps, app, one, them.login):
            return await refuse(deps, act, refusals.not_owner(one.account.login, them.login, place.name))
    return await _bind(deps, act, place, one, (them, tokens))


async def _ready(deps: Deps, caller: Caller, org: str) -> tuple[Membership, App, Login | None] | Refusal:
    """The caller's place in an organization that they may change, the App, and who they are at GitHub."""
    async with deps.db.look(caller.user) as tx:
        place = await _to_change(tx, caller, org, "rift_github_connect")
        mine = await logins.of_user(tx, caller.user)
    if isinstance(place, Refusal):
        return place
    app = await app_of(deps)
    if app is None:
        return registration_refusals.no_app()
    if place.personal and mine is None:
        return logins_refusals.no_login()
    return place, app, mine


async def _connectable(
    deps: Deps, app: App, caller: Caller, place: Membership, mine: Login
) -> list[Installation] | GitHubAccount:
    """The installations that a person may connect and nobody has; of a personal organization, the account it has."""
    person = await person_token(deps, caller.user)
    if isinstance(person, Refusal):  # they may install it, and show then who they are
        return []
    try:
        reached = await deps.github.user_installations(person.token)
    except GitHubDenied:
        return []
    async with deps.db.look(caller.user) as tx:
        bound = {one.installation: one for one in await store.of_installations(tx, [one.id for one in reached])}
    fitting = [
        one for one in reached
        if decide_fit(place, one.account.login, one.account.kind, one.account.id, mine.github_id) is None
    ]  # fmt: skip
    ours = next((bound[one.id] for one in fitting if one.id in bound and bound[one.id].org == place.org), None)
    if place.personal and ours is not None and ours.removed_at is None:
        return ours
    free = [one for one in fitting if one.id not in bound or bound[one.id].removed_at is not None]
    if place.personal:
        return free
    return [one for one in free if not one.suspended and await _owns(deps, app, one, person.login)]


async def _owns(deps: Deps, app: App, installation: Installation, login: str) -> bool:
    """Whether a GitHub user is an owner of the organization where the App is."""
    try:
        token = await deps.github.installation_token(app, installation.id)
        return await deps.github.owns(token.value, installation.account.login, login)
    except GitHubMissing:
        return False


async def _bind(
    deps: Deps, act: Act, place: Membership, installation: Installation,
    as_whom: tuple[Account, UserTokens] | None = None,
) -> Connected | Refusal:  # fmt: skip
    """Connect an account that was shown to be the caller's; `as_whom`: who they are at GitHub, if that is not known."""
    user, now = act.caller.user, deps.clock.now()
    async with audited(deps, act) as (tx, row):
        here = await people.role_in(tx, place.org, user)
        if here is None or await people.put_out(tx, user):
            return row.said(people_refusals.no_such_org(place.name, await people.memberships(tx, user)))
        if refused := people.admin_only(here, Call("rift_github_connect", {"org": here.name}).text):
            return row.said(refused)
        row.org = place.org
        await store.hold(tx, installation.account.id)
        before = await store.find(tx, installation.id)
        await store.end_older(tx, installation.account.id, installation.id, now)
        bound = await store.put(tx, installation, place.org, now)
        if bound is None:
            return row.said(refusals.taken(installation.account.login))
        if as_whom is not None and await logins.of_user(tx, user) is None:
            await logins.keep(tx, deps, user, *as_whom)
        await cover(tx, installation.id)
        new = before is None or before.removed_at is not None
        return row.said(Connected(place.name, bound, new))


# Turning it on and off ------------------------------------------------------------------------------------------------


async def enable(deps: Deps, act: Act, org: str, account: str) -> Connected | Refusal:
    """Rift on for an account that is connected. Source: rift_github_enable."""
    async with audited(deps, act) as (tx, row):
        place = await _to_change(tx, act.caller, org, "rift_github_enable", account)
        if isinstance(place, Refusal):
            return row.said(place)
        row.org = place.org
        one = decide_enable(place, await store.of_org(tx, place.org), account)
        if isinstance(one, Refusal):
            return row.said(one)
        await store.put_enabled(tx, one.installation, True)
        await cover(tx, one.installation)
        return row.said(Connected(place.name, replace(one, enabled=True), new=not one.enabled))


async def disable(deps: Deps, act: Act, org: str, installation: int) -> GitHubAccount | Refusal:
    """Rift off for an account: no new box is made of its repositories. Source: the Organization page."""
    async with audited(deps, act) as (tx, row):
        place = await people.find_org(tx, act.caller, org)
        if isinstance(place, Refusal):
            return row.said(place)
        page = "on the Organization page, disable the GitHub account"
        if refused := people.admin_only(place, page):
            return row.said(refused)
        row.org = place.org
        one = await store.find(tx, installation)
        if one is None or one.org != place.org:
            known = [each.login for each in await store.of_org(tx, place.org) if each.removed_at is None]
            return row.said(refusals.unknown(str(installation), place.name, known))
        await store.put_enabled(tx, installation, False)
        await cover(tx, installation)
        return row.said(replace(one, enabled=False))


async def _to_change(tx: Tx, caller: Caller, org: str, tool: str, account: str | None = None) -> Membership | Refusal:
    place = await people.find_org(tx, caller, org)
    if isinstance(place, Refusal):
        return place
    told = {"org": place.name} if account is None else {"org": place.name, "account": account}
    return people.admin_only(place, Call(tool, told).text) or place
