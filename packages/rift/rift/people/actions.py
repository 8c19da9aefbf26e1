"""What is done with people. What takes `deps` is one transaction; what takes `tx` is a part of another's."""

from __future__ import annotations

from collections.abc import Collection

from keel.db import Tx
from keel.ids import digest, same_digest
from keel.refusal import Refusal
from rift.audit import SystemAct, audited
from rift.deps import Deps
from rift.names import BEARER_PREFIX, TOUCH_EVERY
from rift.people import refusals, store
from rift.people.decide import client_of, email_of
from rift.people.model import Caller, Member, Membership, Token, User


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
    async with audited(deps, _cli(deps, "rift user add", {"email": email, "admin": admin})) as (tx, row):
        address = email_of(email)
        if address is None:
            return row.said(refusals.bad_email(email))
        user = User("user_" + deps.ids.short(12), address, admin, deps.clock.now())
        if not await store.insert_user(tx, user, "org_" + deps.ids.short(12)):
            return row.said(refusals.user_exists(address))
        return row.said(user)


async def list_users(deps: Deps) -> list[User]:
    """Everybody, oldest first. Source: `rift user ls`."""
    async with deps.db.tx() as tx:
        return await store.users(tx)


async def new_token(deps: Deps, email: str, client: str) -> tuple[Token, str] | Refusal:
    """Make a token for a client of this person: the token and, this once, its secret. Source: `rift token new`."""
    async with audited(deps, _cli(deps, "rift token new", {"user": email, "client": client})) as (tx, row):
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
    async with audited(deps, _cli(deps, "rift token revoke", {"token": id})) as (tx, row):
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


async def emails(tx: Tx, ids: Collection[str]) -> dict[str, str]:
    """The email addresses of people, by id; those who are not there are not in it."""
    return await store.emails(tx, ids)


async def role_in(tx: Tx, org: str, user: str) -> Membership | None:
    """A person's place in one organization (by id) at this moment; None when they are not in it."""
    return await store.membership(tx, org, user)


async def find_org(tx: Tx, caller: Caller, name: str) -> Membership | Refusal:
    """The caller's organization of this name: `personal`, or a team they are in."""
    known = await store.memberships(tx, caller.user)
    for member in known:
        if member.name == name.strip():
            return member
    return refusals.no_such_org(name, known)


def admin_only(place: Membership, ask: str) -> Refusal | None:
    """Members read, admins change: None for an admin; a member learns what (`ask`) to ask one for."""
    return None if place.admin else refusals.needs_admin(place.name, ask)


async def find_owner(tx: Tx, email: str | None) -> tuple[User, Membership] | Refusal:
    """The person with this address (without one: the first platform admin) and their personal organization."""
    user = await store.find_user(tx, email.strip()) if email is not None else await store.first_admin(tx)
    if user is None:
        return refusals.no_such_user(email) if email is not None else refusals.no_admin()
    personal = next((member for member in await store.memberships(tx, user.id) if member.personal), None)
    if personal is None:
        raise LookupError(f"{user.id} has no personal organization")
    return user, personal


def _cli(deps: Deps, command: str, arguments: dict[str, object]) -> SystemAct:
    return SystemAct(command, arguments, deps.clock.monotonic())
