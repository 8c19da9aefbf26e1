"""Whom a token speaks for: its keys are found, its signature is checked, its claims are judged.

Nothing is kept but the record of a denial.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from keel import jose
from keel.refusal import Kind, Refusal, Retry, Stop
from onbe.audit import Row, recorded, stranger
from onbe.deps import Deps
from onbe.directory.model import Registration
from onbe.drivers.keys.protocol import KeysUnavailable
from onbe.names import ENDPOINT
from onbe.settings import OnbeSettings
from onbe.tokens import refusals
from onbe.tokens.decide import decide_assertion, decide_presented, decide_subject
from onbe.tokens.model import Assertion, Person, Presented, SubjectRules, Unauthentic

LATER = Retry(5)
"""When keys that cannot be had are worth another try."""

ASSERTION: Mapping[jose.Trouble, Kind] = {
    "malformed": refusals.assertion_malformed,
    "algorithm": refusals.assertion_algorithm,
    "key_unknown": refusals.assertion_key_unknown,
    "signature": refusals.assertion_signature,
}
SUBJECT: Mapping[jose.Trouble, Kind] = {
    "malformed": refusals.subject_malformed,
    "algorithm": refusals.subject_algorithm,
    "key_unknown": refusals.subject_key_unknown,
    "signature": refusals.subject_signature,
}


def subject_rules(settings: OnbeSettings) -> SubjectRules:
    """Whose tokens say who a person is, as set."""
    subjects = settings.subjects
    return SubjectRules(settings.subject_issuer, settings.subject_audiences, subjects.types, subjects.claim)


def audiences(settings: OnbeSettings) -> tuple[str, str]:
    """For whom an agent's assertion may be: the issuer, the token endpoint."""
    return settings.issuer, settings.issuer + ENDPOINT


async def authenticate(
    deps: Deps, assertion: str, peek: jose.Peek, agent: Registration | None, client_id: str | None, *also: str
) -> Assertion | Unauthentic:
    """Whether an assertion is this agent's. Its `jti` is not used up by this: the caller's transaction does it.

    It is addressed to the issuer, the token endpoint, or one of `also`; a `client_id` beside it is the agent's.
    """
    if agent is None:
        return Unauthentic(refusals.assertion_issuer(Stop()))
    try:
        keys = await _keys(deps, agent, peek.kid)
    except KeysUnavailable:
        return Unauthentic(refusals.assertion_keys_unavailable(LATER))
    jwt = jose.verified(assertion, keys)
    if isinstance(jwt, str):
        return Unauthentic(ASSERTION[jwt](Stop()))
    judged = decide_assertion(jwt.claims, agent.agent_id, (*audiences(deps.settings), *also), deps.clock.now())
    if isinstance(judged, Refusal):
        return Unauthentic(judged, agent.agent_id)
    if client_id not in (None, judged.agent):
        return Unauthentic(refusals.assertion_issuer(Stop()), judged.agent)  # RFC 7521, 4.2
    return judged


async def unauthentic(deps: Deps, row: Row, shown: Unauthentic) -> Refusal:
    """A denial of whoever is not, or not well enough, shown to be an agent. Nothing is used up by it."""
    if shown.agent is None:
        return await stranger(deps, row, shown.refusal)
    row.agent = shown.agent
    async with recorded(deps, row):
        return row.said(shown.refusal)


async def person(deps: Deps, token: str, peek: jose.Peek, agents: Collection[str]) -> Person | Refusal:
    """Who a subject token of the identity provider says somebody is."""
    rules = subject_rules(deps.settings)
    if rules.issuer is None:
        return refusals.subject_issuer(Stop())
    try:
        keys = await deps.keys.of_issuer(rules.issuer, peek.kid)
    except KeysUnavailable:
        return refusals.subject_keys_unavailable(LATER)
    jwt = jose.verified(token, keys)
    if isinstance(jwt, str):
        return SUBJECT[jwt](Stop())
    return decide_subject(jwt.header, jwt.claims, rules, agents, deps.clock.now())


def presented(deps: Deps, token: str) -> Presented | Refusal:
    """What a task token of ours says, for another agent that brings it."""
    claims = deps.signing.claims(token)
    return refusals.parent_malformed(Stop()) if claims is None else decide_presented(claims, deps.clock.now())


async def _keys(deps: Deps, agent: Registration, kid: str | None) -> Sequence[Mapping[str, Any]]:
    if agent.jwks_uri is not None:
        return await deps.keys.at(agent.jwks_uri, kid)
    keys = (agent.jwks or {}).get("keys")
    return keys if isinstance(keys, list) else ()
