"""What is done with MCP clients and their secrets. Each is one transaction; a document is read outside any."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from keel.db import Tx
from keel.ids import derived, digest
from keel.refusal import Refusal
from rift.audit import Act, SystemAct, audited
from rift.connections import decide, refusals, store
from rift.connections.model import (
    CODE_FOR,
    UNUSED_FOR,
    UNUSED_LEAST,
    UNUSED_MOST,
    Asked,
    Client,
    Code,
    Connection,
    Exchange,
    Issued,
    Refresh,
    Renewal,
    Request,
    Wrong,
)
from rift.deps import Deps
from rift.drivers.documents.protocol import DocumentUnavailable
from rift.names import BEARER_PREFIX, CODE_PREFIX, REFRESH_PREFIX
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.decide import client_of
from rift.people.model import Token, User

CODES_KEPT = timedelta(days=1)
"""How long a code is remembered after it is good, so that one which comes again ends what it gave."""


def resource(deps: Deps) -> str:
    """The address of the MCP endpoint: the one resource that tokens are for (RFC 8707)."""
    return f"{deps.settings.server.address}/mcp"


async def register(deps: Deps, said: Mapping[str, Any]) -> Client | Refusal:
    """Take a client that makes itself known (RFC 7591). Source: `/oauth2/register`."""
    act = SystemAct("oauth register", {}, deps.clock.monotonic(), via="oauth")
    async with audited(deps, act) as (tx, row):
        read = decide.registration(said)
        if isinstance(read, Refusal):
            return row.said(read)
        now = deps.clock.now()
        if await store.unused(tx) >= UNUSED_MOST:  # what nobody signed in by at once makes room: no flood lasts
            await store.forget_unused(tx, now - UNUSED_LEAST)
        if await store.unused(tx) >= UNUSED_MOST:
            return row.said(refusals.clients_full(UNUSED_MOST))
        name, uris = read
        client = Client("client_" + deps.ids.short(20), "registered", name, uris, {}, now, None)
        await store.put_client(tx, client)
        return client


async def ask(deps: Deps, request: Request, *, signed_in: bool) -> Asked | Wrong | Refusal | None:
    """What a person may answer. None: they sign in first, as for strangers no document of others is read.

    Source: `/oauth2/authorize`.
    """
    client = await _client(deps, request.client_id, read=signed_in)
    if client is None or isinstance(client, Refusal):
        return client
    return decide.asked(request, client, resource(deps))


async def allow(deps: Deps, act: Act, asked: Asked) -> str:
    """The person said yes: a code for the client, good once and for a minute. Source: the consent page."""
    async with audited(deps, act) as (tx, _):
        code, now = CODE_PREFIX + deps.ids.token(), deps.clock.now()
        await store.insert_code(tx, digest(code), asked, act.caller.user, now, now + CODE_FOR)
        await store.client_used(tx, asked.client.id, now)
        return code


async def deny(deps: Deps, act: Act, asked: Asked) -> Refusal:
    """The person said no. Source: the consent page."""
    async with audited(deps, act) as (_, row):
        return row.said(refusals.access_denied(asked.client.name))


async def exchange(deps: Deps, presented: Exchange) -> Issued | Refusal:
    """A token for a code. A code that comes a second time ends what it gave (RFC 9700, 4.5; OAuth 2.1, 4.1.3).

    One that is presented wrongly is used up too: whoever has it without what goes with it found it. Source:
    `/oauth2/token`.
    """
    sha256 = digest(presented.code)
    async with deps.db.look("oauth") as tx:
        code = await store.code(tx, sha256)
    if code is None:
        return await _nothing(deps, presented.client_id)
    act = Act(code.caller, "oauth sign in", {"client": code.client}, deps.clock.monotonic())
    async with audited(deps, act) as (tx, row):
        now = deps.clock.now()
        if not await store.use_code(tx, sha256, now):
            again = await store.code(tx, sha256)
            if again is not None and again.token is not None:
                await people.end_token(tx, deps, again.token)
            row.outcome = "code_reused"
            return refusals.invalid_grant()
        refusal = decide.exchange(code, presented, now, resource(deps))
        if refusal is not None:
            return row.said(refusal)
        token = await people.add_token(tx, deps, _user(deps, code), code.name, client_id=code.client)
        await store.code_gave(tx, sha256, token.id)
        access, refresh = BEARER_PREFIX + deps.ids.token(), REFRESH_PREFIX + deps.ids.token()
        return await _issue(deps, tx, token.id, access, refresh)


async def renew(deps: Deps, presented: Renewal) -> Issued | Refusal:
    """A new token, and a new refresh token in place of this one, which is good no more. Source: `/oauth2/token`.

    Its successors are made of it and of a salt that is kept, so whoever asks again within the grace gets the same
    ones. Later, it ends them all: one of two has stolen it, and nobody knows which.
    """
    sha256 = digest(presented.refresh)
    async with deps.db.look("oauth") as tx:
        known = await store.refresh(tx, sha256)
    if known is None:
        return await _nothing(deps, presented.client_id)
    act = Act(known.caller, "oauth renew", {"client": known.client}, deps.clock.monotonic())
    async with audited(deps, act) as (tx, row):
        now, refresh = deps.clock.now(), await store.lock_refresh(tx, sha256)
        if refresh is None:  # forgotten meanwhile
            return row.said(refusals.invalid_grant())
        verdict = decide.renewal(refresh, presented, now, resource(deps))
        if isinstance(verdict, Refusal):
            return row.said(verdict)
        if verdict == "reused":
            await people.end_token(tx, deps, refresh.token)
            row.outcome = "refresh_reused"
            return refusals.invalid_grant()
        access, successor = _successors(refresh, presented.refresh)
        if verdict == "again":
            until = await store.access_until(tx, digest(access)) or now
            return Issued(access, successor, max(0, int((until - now).total_seconds())))
        await store.refresh_used(tx, sha256, now)
        return await _issue(deps, tx, refresh.token, access, successor)


async def revoke(deps: Deps, secret: str, client_id: str) -> None:
    """A client signs itself out: all that it holds of the same sign-in ends. Source: `/oauth2/revoke` (RFC 7009).

    What is unknown, or another client's, is left as it is, and nothing is told of it.
    """
    async with deps.db.look("oauth") as tx:
        found = await store.token_of(tx, digest(secret))
    if found is None or found[1] != client_id:
        return
    act = SystemAct("oauth sign out", {"token": found[0]}, deps.clock.monotonic(), via="oauth")
    async with audited(deps, act) as (tx, _):
        await people.end_token(tx, deps, found[0])


async def connections(deps: Deps, user: str) -> list[Connection]:
    """A person's tokens that are good, the last used first. Source: the Connections page."""
    async with deps.db.look() as tx:
        return await store.connections(tx, user)


async def connection(deps: Deps, user: str, id: str) -> Connection | Refusal:
    """One of them."""
    if not decide.is_plain(id):
        return people_refusals.no_such_token(id)
    async with deps.db.look() as tx:
        return await store.connection(tx, user, id) or people_refusals.no_such_token(id)


async def disconnect(deps: Deps, act: Act, id: str) -> Token | Refusal:
    """End one of the person's own tokens; its next call is refused. Source: the Connections page."""
    async with audited(deps, act) as (tx, row):
        token = await people.end_token(tx, deps, id, act.caller.user) if decide.is_plain(id) else None
        return row.said(token or people_refusals.no_such_token(id))


async def make(deps: Deps, act: Act, client: str) -> tuple[Token, str] | Refusal:
    """Make a token by hand: the token and, this once, its secret. Source: the Connections page."""
    async with audited(deps, act) as (tx, row):
        name = client_of(client)
        if not name:
            return row.said(people_refusals.bad_client())
        who, secret = act.caller, BEARER_PREFIX + deps.ids.token()
        user = User(who.user, who.email, who.admin, deps.clock.now())
        return await people.add_token(tx, deps, user, name, secret=secret), secret


async def forget(deps: Deps) -> tuple[int, int]:
    """Forget what expired and who was never used: how many tokens ended so, and how many clients went."""
    async with deps.db.tx() as tx:
        now = deps.clock.now()
        ended = await store.end_quiet(tx, now)
        await store.forget(tx, now, now - CODES_KEPT)
        return ended, await store.forget_clients(tx, now - UNUSED_FOR)


async def _client(deps: Deps, id: str, *, read: bool) -> Client | Refusal | None:
    """The client of an id. None: its document is to be read first, and `read` says that it may not be."""
    if id.partition(":")[0].lower() != "https":
        return await _known(deps, id) or refusals.unknown_client(id[:200])
    problem = decide.document_problem(id)
    if problem is not None:
        return refusals.client_unreadable(id[:200], problem)
    now, found = deps.clock.now(), await _known(deps, id)
    if found is not None and found.fresh(now):
        return found
    if not read:
        return None
    try:
        document = await deps.documents.read(id)
    except DocumentUnavailable as trouble:
        return refusals.client_unreadable(id, str(trouble))
    told = decide.document(id, document.value)
    if isinstance(told, Refusal):
        return told
    until = now + decide.fresh_for(document.max_age)
    facts = {"fresh_until": until.isoformat()}
    client = Client(id, "document", *told, facts, now, None)
    async with deps.db.tx() as tx:
        await store.put_client(tx, client)
    return client


async def _nothing(deps: Deps, client_id: str) -> Refusal:
    """The refusal of what nobody knows: a client that is unknown itself should make itself known anew."""
    known = await _known(deps, client_id)
    return refusals.invalid_grant() if known else refusals.unknown_client(client_id[:200])


async def _known(deps: Deps, id: str) -> Client | None:
    if not decide.is_plain(id):
        return None
    async with deps.db.look("oauth") as tx:
        return await store.client(tx, id)


async def _issue(deps: Deps, tx: Tx, token: str, access: str, refresh: str) -> Issued:
    now, tokens = deps.clock.now(), deps.settings.tokens
    salt = bytes.fromhex(deps.ids.hex(64))
    await store.insert_access(tx, digest(access), token, now, now + tokens.access_for)
    await store.insert_refresh(tx, digest(refresh), token, salt, resource(deps), now, now + tokens.refresh_for)
    return Issued(access, refresh, int(tokens.access_for.total_seconds()))


def _successors(refresh: Refresh, secret: str) -> tuple[str, str]:
    """The access and the refresh token that follow from one that is presented."""
    return (
        BEARER_PREFIX + derived(refresh.salt, secret, "access"),
        REFRESH_PREFIX + derived(refresh.salt, secret, "refresh"),
    )


def _user(deps: Deps, code: Code) -> User:
    return User(code.user, code.email, code.admin, deps.clock.now())
