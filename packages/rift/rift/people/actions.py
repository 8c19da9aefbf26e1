"""What is done with people. What takes `deps` is one transaction; what takes `tx` is a part of another's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from keel import jobs
from keel.db import Tx
from keel.ids import digest, same_digest
from keel.refusal import Refusal
from rift.audit import Act, SystemAct, audited
from rift.deps import Deps
from rift.names import BEARER_PREFIX, TOUCH_EVERY
from rift.people import refusals, store
from rift.people.decide import TEAM_MOST, client_of, decide_platform, decide_role, email_of, team_of
from rift.people.model import Caller, Member, Membership, Person, Role, Team, Token, User


def operator(deps: Deps, command: str, arguments: Mapping[str, object]) -> SystemAct:
    """A command on the server, as its record tells it: `rift user add`."""
    return SystemAct(command, arguments, deps.clock.monotonic())


async def authenticate(deps: Deps, secret: str) -> Caller | None:
    """The person whose token this is, or None: unknown, revoked or malformed are not told apart.

    One indexed look-up by the secret's digest; once a minute a second statement notes that the token is in use.
    """
    if not secret.startswith(BEARER_PREFIX):
        return None
    presented, now = digest(secret), deps.clock.now()
    async with deps.db.look("tokens") as tx:  # strangers with guessed tokens leave the other connections alone
        found = await store.authenticate(tx, presented, now - TOUCH_EVERY, now)
        if found is None:
            return None
        caller, stored, stale = found
        if not same_digest(stored, presented):
            return None
        if stale:
            await store.used(tx, caller.token, now)
        return caller


async def add_user(deps: Deps, email: str, admin: bool) -> User | Refusal:
    """Make an account and the personal organization that goes with it. Source: `rift user add`."""
    async with audited(deps, operator(deps, "rift user add", {"email": email, "admin": admin})) as (tx, row):
        address = email_of(email)
        if address is None:
            return row.said(refusals.bad_email(email))
        user = await make_user(tx, deps, address, admin=admin)
        return row.said(user or refusals.user_exists(address))


async def make_user(tx: Tx, deps: Deps, email: str, *, admin: bool = False) -> User | None:
    """Make an account with its personal organization; None when this address has one. `email` was looked at before."""
    user = User("user_" + deps.ids.short(12), email, admin, deps.clock.now())
    return user if await store.insert_user(tx, user, "org_" + deps.ids.short(12)) else None


async def list_users(deps: Deps) -> list[User]:
    """Everybody, oldest first. Source: `rift user ls`."""
    async with deps.db.tx() as tx:
        return await store.users(tx)


async def new_token(deps: Deps, email: str, client: str) -> tuple[Token, str] | Refusal:
    """Make a token for a client of this person: the token and, this once, its secret. Source: `rift token new`."""
    async with audited(deps, operator(deps, "rift token new", {"user": email, "client": client})) as (tx, row):
        user = await store.find_user(tx, email.strip())
        if user is None:
            return row.said(refusals.no_such_user(email))
        name = client_of(client)
        if not name:
            return row.said(refusals.bad_client())
        secret = BEARER_PREFIX + deps.ids.token()
        return await add_token(tx, deps, user, name, secret=secret), secret


async def add_token(
    tx: Tx, deps: Deps, user: User, client: str, *, secret: str | None = None, client_id: str | None = None
) -> Token:
    """A token for a client of this person, whose name is fit for a list.

    `secret` is its own, where it is made by hand; else the client's id, which gets its secrets by signing in.
    """
    token = Token("tok_" + deps.ids.short(12), user.id, user.email, client, deps.clock.now(), None, None)
    await store.insert_token(tx, token, digest(secret) if secret is not None else None, client_id)
    return token


async def end_token(tx: Tx, deps: Deps, id: str, owner: str | None = None) -> Token | None:
    """End a token at once, with all secrets of it. With `owner`, only if it is that person's; None if there is none."""
    return await store.revoke(tx, id, deps.clock.now(), owner)


async def list_tokens(deps: Deps, email: str | None = None) -> list[Token] | Refusal:
    """The tokens of one person or of everybody, oldest first, the revoked ones too. Source: `rift token ls`."""
    async with deps.db.tx() as tx:
        if email is None:
            return await store.tokens(tx, None)
        user = await store.find_user(tx, email.strip())
        return await store.tokens(tx, user.id) if user else refusals.no_such_user(email)


async def revoke_token(deps: Deps, id: str) -> Token | Refusal:
    """End a token; its next call is refused. Revoking it again changes nothing. Source: `rift token revoke`."""
    async with audited(deps, operator(deps, "rift token revoke", {"token": id})) as (tx, row):
        token = await store.revoke(tx, id, deps.clock.now())
        return row.said(token or refusals.no_such_token(id))


async def memberships(tx: Tx, user: str) -> list[Membership]:
    """Every organization of a person, their own first."""
    return await store.memberships(tx, user)


async def members(tx: Tx, user: str) -> list[Member]:
    """Everybody in the organizations of a person, admins first."""
    return await store.members(tx, user)


async def find(tx: Tx, email: str) -> User | None:
    """The person with this address."""
    return await store.find_user(tx, email.strip())


async def platform_admins(tx: Tx) -> list[User]:
    """The platform admins who are not put out, the first one first."""
    return await store.platform_admins(tx)


async def emails(tx: Tx, ids: Collection[str]) -> dict[str, str]:
    """The email addresses of people, by id; those who are not there are not in it."""
    return await store.emails(tx, ids)


async def role_in(tx: Tx, org: str, user: str) -> Membership | None:
    """A person's place in one organization (by id) at this moment; None when they are not in it."""
    return await store.membership(tx, org, user)


async def find_org(tx: Tx, caller: Caller, name: str) -> Membership | Refusal:
    """The caller's organization of this name: `personal`, or a team they are in."""
    known = await store.memberships(tx, caller.user)
    wanted = " ".join(name.split())
    for same in (str, str.lower):  # names are unique without regard to case
        for member in known:
            if same(member.name) == same(wanted):
                return member
    return refusals.no_such_org(name, known)


def admin_only(place: Membership, ask: str) -> Refusal | None:
    """Members read, admins change: None for an admin; a member learns what (`ask`) to ask one for."""
    return None if place.admin else refusals.needs_admin(place.name, ask)


# Teams ------------------------------------------------------------


async def new_team(deps: Deps, act: Act, name: str) -> Membership | Refusal:
    """Make a team with the caller as its admin. Source: rift_org_new."""
    async with audited(deps, act) as (tx, row):
        kept = team_of(name)
        if kept is None:
            return row.said(refusals.bad_team_name(TEAM_MOST))
        place = Membership("org_" + deps.ids.short(12), kept, "admin")
        if not await store.insert_team(tx, place.org, kept, deps.clock.now()):
            held = await find_org(tx, act.caller, kept)
            return row.said(refusals.team_exists(kept, theirs=isinstance(held, Refusal)))
        await store.insert_member(tx, place.org, act.caller.user, place.role, deps.clock.now())
        row.org = place.org
        return row.said(place)


async def people_of(tx: Tx, org: str) -> list[Person]:
    """Everybody in an organization (by id), admins first."""
    return await store.people(tx, org)


async def team_to_change(tx: Tx, caller: Caller, name: str, ask: str) -> Membership | Refusal:
    """The caller's team of this name, held until the transaction ends, if they are its admin at this moment.

    A member learns what (`ask`) to ask an admin for.
    """
    place = await _team_held(tx, caller, name)
    return place if isinstance(place, Refusal) else admin_only(place, ask) or place


async def team_named(tx: Tx, name: str) -> Team | Refusal:
    """Any team by its name, held until the transaction ends: for whoever runs the server."""
    team = await store.team(tx, " ".join(name.split()))
    if team is None:
        return refusals.no_such_team(name)
    await store.lock_org(tx, team.id)
    return team


async def hold_org(tx: Tx, org: str) -> None:
    """Hold an organization (by id) against changes of its members until the transaction ends."""
    await store.lock_org(tx, org)


async def hold_person(tx: Tx, user: str) -> None:
    """Hold a person (by id) until the transaction ends, so that what is counted of theirs is counted by one at once."""
    await store.lock_user(tx, user)


async def join(tx: Tx, deps: Deps, org: str, user: str, role: Role) -> bool:
    """Put somebody into an organization that is held; False when they are in it."""
    return await store.insert_member(tx, org, user, role, deps.clock.now())


async def set_role(deps: Deps, act: Act, org: str, email: str, role: Role) -> Person | Refusal:
    """Make a member of a team its admin, or an admin a member. Source: the Organization page."""
    async with audited(deps, act) as (tx, row):
        found = await _member_to_change(tx, act.caller, org, email, role)
        if isinstance(found, Refusal):
            return row.said(found)
        place, who = found
        row.org = place.org
        await store.put_role(tx, place.org, who.user, role)
        return row.said(replace(who, role=role))


async def remove_member(deps: Deps, act: Act, org: str, email: str) -> Person | Refusal:
    """Take somebody out of a team: their next call on a box of it is refused. Source: the Organization page."""
    async with audited(deps, act) as (tx, row):
        found = await _member_to_change(tx, act.caller, org, email, None)
        if isinstance(found, Refusal):
            return row.said(found)
        place, who = found
        row.org = place.org
        await store.delete_member(tx, place.org, who.user)
        return row.said(who)


async def leave(deps: Deps, act: Act, org: str) -> Membership | Refusal:
    """Leave a team. Source: the Organization page."""
    async with audited(deps, act) as (tx, row):
        place = await _team_held(tx, act.caller, org)
        if isinstance(place, Refusal):
            return row.said(place)
        row.org = place.org
        who = decide_role(place.name, await store.people(tx, place.org), act.caller.email, None)
        if isinstance(who, Refusal):
            return row.said(who)
        await store.delete_member(tx, place.org, who.user)
        return row.said(place)


async def list_teams(deps: Deps) -> list[Team]:
    """Every team, by name. Source: `rift org ls`."""
    async with deps.db.tx() as tx:
        return await store.teams(tx)


# The platform admin ------------------------------------------------------------


async def platform_only(tx: Tx, act: Act | SystemAct, ask: str) -> Refusal | None:
    """None for a platform admin, who stays one until the transaction ends, and for a command on the server."""
    if isinstance(act, SystemAct) or await store.keep_admin(tx, act.caller.user):
        return None
    return refusals.needs_platform_admin(ask)


async def disable(deps: Deps, act: Act | SystemAct, email: str) -> User | Refusal:
    """Put somebody out: none of their tokens, sessions and links is good from now on, and their tasks close.

    Jobs that are queued here close the tasks and end the sessions, so that neither is there again for who is let in
    again. Source: the People page, `rift user disable`.
    """
    async with audited(deps, act) as (tx, row):
        user = await _user_to_change(tx, act, email, f"on the People page, put {email.strip()} out")
        if isinstance(user, Refusal):
            return row.said(user)
        if refused := decide_platform(await store.platform_admins(tx), user):
            return row.said(refused)
        out = await store.put_disabled(tx, user.id, deps.clock.now())
        await jobs.defer(tx, "tasks.close_put_out", once="tasks.close_put_out")
        await jobs.defer(tx, "sessions.end_put_out", once="sessions.end_put_out")
        await jobs.defer(tx, "logins.end_put_out", once="logins.end_put_out")
        return row.said(out or refusals.no_such_user(email))


async def enable(deps: Deps, act: Act | SystemAct, email: str) -> User | Refusal:
    """Let somebody in again who was put out; what was closed stays closed. Source: People page, `rift user enable`."""
    async with audited(deps, act) as (tx, row):
        user = await _user_to_change(tx, act, email, f"on the People page, let {email.strip()} in again")
        if isinstance(user, Refusal):
            return row.said(user)
        return row.said(await store.put_disabled(tx, user.id, None) or refusals.no_such_user(email))


async def set_admin(deps: Deps, act: Act | SystemAct, email: str, admin: bool) -> User | Refusal:
    """Make somebody a platform admin, or one no longer. Source: `rift user admin`."""
    async with audited(deps, act) as (tx, row):
        user = await _user_to_change(tx, act, email, f"make {email.strip()} a platform admin")
        if isinstance(user, Refusal):
            return row.said(user)
        refused = None if admin else decide_platform(await store.platform_admins(tx), user)
        if refused is not None:
            return row.said(refused)
        return row.said(await store.put_admin(tx, user.id, admin) or refusals.no_such_user(email))


async def put_out(tx: Tx, user: str) -> bool:
    """Whether a person (by id) is put out now."""
    return await store.disabled(tx, user)


async def find_owner(tx: Tx, email: str | None) -> tuple[User, Membership] | Refusal:
    """The person with this address (without one: the first platform admin) and their personal organization."""
    user = await store.find_user(tx, email.strip()) if email is not None else await store.first_admin(tx)
    if user is None:
        return refusals.no_such_user(email) if email is not None else refusals.no_admin()
    personal = next((member for member in await store.memberships(tx, user.id) if member.personal), None)
    if personal is None:
        raise LookupError(f"{user.id} has no personal organization")
    return user, personal


async def _team_held(tx: Tx, caller: Caller, name: str) -> Membership | Refusal:
    """The caller's team of this name, held; their place in it is the one of the moment in which it was got."""
    found = await find_org(tx, caller, name)
    if isinstance(found, Refusal):
        return found
    if found.personal:
        return refusals.not_a_team()
    await store.lock_org(tx, found.org)
    return await store.membership(tx, found.org, caller.user) or await _no_such_org(tx, caller, name)


async def _no_such_org(tx: Tx, caller: Caller, name: str) -> Refusal:
    return refusals.no_such_org(name, await store.memberships(tx, caller.user))


async def _member_to_change(
    tx: Tx, caller: Caller, org: str, email: str, role: Role | None
) -> tuple[Membership, Person] | Refusal:
    page = f"on the Organization page, {f'make {email.strip()} {role}' if role else f'remove {email.strip()}'}"
    place = await team_to_change(tx, caller, org, page)
    if isinstance(place, Refusal):
        return place
    who = decide_role(place.name, await store.people(tx, place.org), email, role)
    return who if isinstance(who, Refusal) else (place, who)


async def _user_to_change(tx: Tx, act: Act | SystemAct, email: str, ask: str) -> User | Refusal:
    await store.lock_platform(tx)
    refused = await platform_only(tx, act, ask)
    return refused or await store.find_user(tx, email.strip()) or refusals.no_such_user(email.strip())
