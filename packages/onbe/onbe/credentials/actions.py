"""Revoking and asking after tokens and grants. An agent shows itself by its assertion, as at an exchange.

**Who may ask after a token** (RFC 7662, 2.1 wants that somebody must be shown): any registered agent, and a tool server
registers as one, or the holder of the admin key. A tool server needs no power over anything to ask, so it should have
an assertion and never the key; what it learns is what stands in the token it holds already, and whether that is good.

An assertion is good for one exchange, refresh or revocation. For asking it may also be addressed to the introspection
endpoint alone (`aud`); then it is good for as many questions as its holder likes until it expires, five minutes at
most, and for nothing else anywhere. So a question after a token of high risk is one statement and writes nothing. One
that is addressed to the issuer or the token endpoint could be an exchange's, and is used up by a question as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from keel import jose
from keel.db import Tx
from keel.ids import digest
from keel.refusal import Refusal, Stop
from onbe.audit import Row, recorded, stranger
from onbe.credentials import refusals, store
from onbe.credentials.decide import UNKNOWN, decide_standing
from onbe.credentials.model import Active, Ask, Inactive
from onbe.deps import Deps
from onbe.directory.model import Registration
from onbe.directory.refusals import agent_disabled
from onbe.grants.refusals import grant_not_found
from onbe.names import ASSERTION_LIFE, GRANT_PREFIX, INTROSPECT_PATH, SKEW
from onbe.tasks import actions as tasks
from onbe.tokens import actions as tokens
from onbe.tokens import refusals as unbelieved
from onbe.tokens.decide import decide_presented
from onbe.tokens.model import Assertion, Presented, Unauthentic

REVOKED: Final = "revoked_by_agent"
FORGOTTEN_AT_ONCE = 5000


class Known:
    """Assertions for asking alone that this process has verified: the same one is not verified for each question.

    One counts for as long as it is valid and its agent's registration is the one that it was verified by.
    """

    def __init__(self, most: int = 1024) -> None:
        self._most = most
        self._held: dict[bytes, tuple[Assertion, Registration]] = {}

    def find(self, ask: Ask, now: datetime) -> Assertion | None:
        """Whose it is, if it is known and has not expired."""
        held = self._held.get(_name(ask)) if ask.assertion is not None else None
        return held[0] if held is not None and held[0].expires_at > now else None

    def still(self, ask: Ask, agent: Registration | None) -> bool:
        """Whether it is known of an agent that is registered as it was, and may ask."""
        held = self._held.get(_name(ask))
        return held is not None and agent == held[1] and ask.client_id in (None, held[0].agent)

    def keep(self, ask: Ask, shown: Assertion, agent: Registration) -> None:
        """Know one more; the one that was known first makes room."""
        while len(self._held) >= self._most:
            del self._held[next(iter(self._held))]
        self._held[_name(ask)] = shown, agent


def _name(ask: Ask) -> bytes:
    return digest(ask.assertion or "")


async def introspect(deps: Deps, ask: Ask, started: float, known: Known) -> Active | Inactive | Refusal:
    """How a token stands. Only a denial is a record. Source: RFC 7662."""
    row = Row("token.introspect", started)
    claims, brought = _ours(deps, ask.token)
    jti, task = (brought.jti, brought.task) if brought else (None, None)
    shown = known.find(ask, deps.clock.now())
    says = jose.peek(ask.assertion) if ask.assertion is not None and shown is None else None
    if says is None and ask.assertion is not None and shown is None:
        return await stranger(deps, row, unbelieved.assertion_malformed(Stop()))
    async with deps.db.look() as tx:
        found = await store.look(tx, shown.agent if shown else says.issuer if says else None, jti, task)
    if ask.assertion is not None and (shown is None or not known.still(ask, found.asker)):
        refused = await _may_ask(deps, row, ask, says or jose.peek(ask.assertion), found.asker, known)
        if refused is not None:
            return refused
    return UNKNOWN if brought is None else decide_standing(claims, found)


async def revoke(deps: Deps, ask: Ask, started: float) -> Refusal | None:
    """End what an agent holds: a grant's task with all delegated from it, or one token. Source: RFC 7009.

    What is another agent's, unknown or over stays as it is, and nobody is told; the record says what happened.
    """
    row = Row("token.revoke", started)
    assertion = ask.assertion or ""
    says = jose.peek(assertion)
    if says is None:
        return await stranger(deps, row, unbelieved.assertion_malformed(Stop()))
    grant = digest(ask.token) if ask.token.startswith(GRANT_PREFIX) else None
    async with deps.db.look() as tx:
        found = await store.look(tx, says.issuer)
        task = await tasks.of_grant(tx, grant) if grant is not None else None
    shown = await tokens.authenticate(deps, assertion, says, found.asker, ask.client_id)
    if isinstance(shown, Unauthentic):
        return await tokens.unauthentic(deps, row, shown)
    row.agent = shown.agent
    row.facts["kind"] = "token" if grant is None else "grant"
    theirs = task if task is not None and task.agent == shown.agent else None
    async with recorded(deps, row) as tx:
        if theirs is not None:
            await tasks.hold(tx, theirs)
        if not await _spend(tx, shown):
            return row.said(unbelieved.assertion_replayed(Stop()))
        if grant is None:
            row.said(await _revoke_token(tx, deps, row, ask.token))
        elif theirs is None:
            row.said(grant_not_found(Stop()))
        else:
            row.task, row.sponsor = theirs.id, theirs.sponsor
            row.facts["tasks"] = len(await tasks.end_in(tx, deps, theirs, REVOKED, shown.agent))
    return None


async def forget(deps: Deps) -> int:
    """Delete what need not be remembered: assertions that no clock would take any more, tokens that have expired."""
    before = deps.clock.now() - SKEW
    async with deps.db.tx() as tx:
        gone = await store.forget_assertions(tx, before, FORGOTTEN_AT_ONCE)
        return gone + await store.forget_tokens(tx, before, FORGOTTEN_AT_ONCE)


async def _revoke_token(tx: Tx, deps: Deps, row: Row, token: str) -> Refusal | None:
    claims, brought = _ours(deps, token)
    if brought is None or brought.agent != row.agent:
        return refusals.token_not_found(Stop())
    row.task, row.sponsor, row.facts["token"] = brought.task, str(claims["sub"]), brought.jti
    new = await store.revoke(tx, brought.jti, brought.task, deps.clock.now(), REVOKED, brought.expires_at)
    row.facts["tokens"] = int(new)
    return None


def _ours(deps: Deps, token: str) -> tuple[Mapping[str, Any], Presented | None]:
    """What a token says that we signed and that has not expired; nothing of any other."""
    claims = deps.signing.claims(token) if len(token) <= jose.TOKEN_LENGTH else None
    brought = decide_presented(claims, deps.clock.now()) if claims is not None else None
    return claims or {}, brought if isinstance(brought, Presented) else None


async def _may_ask(
    deps: Deps, row: Row, ask: Ask, says: jose.Peek | None, agent: Registration | None, known: Known
) -> Refusal | None:
    """Why whoever asks may not; None for an agent of ours that may."""
    assert ask.assertion is not None  # an administrator has shown the key
    if says is None:
        return await stranger(deps, row, unbelieved.assertion_malformed(Stop()))
    address = deps.settings.issuer + INTROSPECT_PATH
    shown = await tokens.authenticate(deps, ask.assertion, says, agent, ask.client_id, address)
    if isinstance(shown, Unauthentic):
        return await tokens.unauthentic(deps, row, shown)
    row.agent = shown.agent
    refused = None if agent is not None and agent.enabled else agent_disabled(Stop())
    if shown.audience != address:
        async with deps.db.look() as tx:
            if not await _spend(tx, shown):
                refused = unbelieved.assertion_replayed(Stop())
    elif refused is None and agent is not None:
        known.keep(ask, shown, agent)
    if refused is not None:
        async with recorded(deps, row):
            return row.said(refused)
    return None


async def _spend(tx: Tx, shown: Assertion) -> bool:
    return await store.spend(tx, shown.agent, digest(shown.jti), shown.expires_at + ASSERTION_LIFE)
