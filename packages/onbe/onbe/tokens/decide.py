"""Whether an agent's assertion, a person's token or a task token is taken. Their signatures hold already.

Nothing in a token is of a type that is not checked: a claim of another type is as bad as a forged one, and `true` is
no number. Source: RFC 7519, 4.1; RFC 7523, 3; RFC 8693, 4; 4-onbe, Exchange, refresh.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from keel.refusal import Refusal, Stop
from onbe.names import ASSERTION_LIFE, INSTANCE_LENGTH, JTI_LENGTH, SKEW, SPONSOR_LENGTH
from onbe.tokens import refusals
from onbe.tokens.model import Assertion, Person, Presented, SubjectRules

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
LAST_SECOND = 253_402_300_799
"""The end of the year 9999: what counts seconds beyond it is no date."""
SCOPE_CHARACTERS = frozenset(map(chr, (0x21, *range(0x23, 0x5C), *range(0x5D, 0x7F))))
"""Of a scope-token (RFC 6749, 3.3)."""


def scope_of(text: str) -> tuple[str, ...] | None:
    """The members of a scope in their order, each once; None where it is no scope. Source: RFC 6749, 3.3."""
    members = text.split(" ")
    if not all(member and SCOPE_CHARACTERS.issuperset(member) for member in members):
        return None
    return tuple(dict.fromkeys(members))


def decide_assertion(
    claims: Mapping[str, Any], agent: str, audiences: Collection[str], now: datetime
) -> Assertion | Refusal:
    """Judge the claims of an assertion that a key of `agent` signed. `audiences`: one of which it is addressed to."""
    times = _times(claims)
    jti, instance = claims.get("jti"), claims.get("instance")
    if times is None:
        return refusals.assertion_malformed(Stop())
    if claims.get("iss") != agent or claims.get("sub") != agent:
        return refusals.assertion_issuer(Stop())
    audience = _only_audience(claims.get("aud"))
    if audience is None or audience not in audiences:
        return refusals.assertion_audience(Stop())
    if times.expires <= now - SKEW:
        return refusals.assertion_expired(Stop())
    if times.expires > now + ASSERTION_LIFE:
        return refusals.assertion_too_long(Stop())
    if times.begins > now + SKEW:
        return refusals.assertion_not_yet(Stop())
    if not isinstance(jti, str) or not 0 < len(jti) <= JTI_LENGTH:
        return refusals.assertion_no_jti(Stop())
    if instance is not None and not (
        isinstance(instance, str) and 0 < len(instance) <= INSTANCE_LENGTH and instance.isprintable()
    ):
        return refusals.assertion_instance(Stop())
    return Assertion(agent, jti, times.expires, instance, audience)


def names_of(claims: Mapping[str, Any], rules: SubjectRules) -> tuple[str, ...]:
    """By which names a subject token's subject may be an agent: a registered one of these is no person."""
    names = (claims.get(name) for name in ("sub", "client_id", rules.claim))
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def decide_subject(
    header: Mapping[str, Any], claims: Mapping[str, Any], rules: SubjectRules, agents: Collection[str], now: datetime
) -> Person | Refusal:
    """Judge a subject token of the identity provider. `agents`: those of `names_of` that are registered.

    Whoever carries `act`, whose `sub` is the client itself (RFC 9068, 2.2), or who is registered here is an agent.
    `may_act` is not looked at. A token with `events` tells of something that happened, as a logout token does, and is
    none to act with (RFC 8417, 4.5). An address that was not verified is nobody's name: anybody may have written it
    (OpenID Connect Core 1.0, 5.7). A token without `scope` and `scp` does not narrow what the registration allows.
    """
    times, scope = _times(claims), _scope_claim(claims)
    if times is None or isinstance(scope, Wrong):
        return refusals.subject_malformed(Stop())
    if rules.types and _media_type(header.get("typ")) not in map(_media_type, rules.types):
        return refusals.subject_type(Stop())
    if "events" in claims:
        return refusals.subject_type(Stop())
    if rules.issuer is None or claims.get("iss") != rules.issuer:
        return refusals.subject_issuer(Stop())
    if not _audiences(claims.get("aud")) & set(rules.audiences):
        return refusals.subject_audience(Stop())
    if times.expires <= now - SKEW:
        return refusals.subject_expired(Stop())
    if times.begins > now + SKEW:
        return refusals.subject_not_yet(Stop())
    sub, name = claims.get("sub"), claims.get(rules.claim)
    if "act" in claims or agents or (sub is not None and sub == claims.get("client_id")):
        return refusals.subject_is_agent(Stop())
    if not isinstance(name, str) or not 0 < len(name) <= SPONSOR_LENGTH or not name.isprintable():
        return refusals.subject_nameless(Stop())
    if rules.claim == "email" and claims.get("email_verified", True) not in (True, "true"):
        return refusals.subject_nameless(Stop())
    return Person(name, scope)


def decide_presented(claims: Mapping[str, Any], now: datetime) -> Presented | Refusal:
    """Judge a task token: one that we signed, so that its claims are as we make them. No skew: both clocks are ours."""
    times, task = _times(claims), claims.get("task")
    jti, agent, scope = claims.get("jti"), claims.get("client_id"), claims.get("scope")
    members = scope_of(scope) if isinstance(scope, str) else None
    id = task.get("id") if isinstance(task, Mapping) else None
    if not (isinstance(jti, str) and isinstance(agent, str) and isinstance(id, str)) or not members or times is None:
        return refusals.parent_malformed(Stop())
    if times.expires <= now:
        return refusals.parent_expired(Stop())
    return Presented(jti, id, agent, members, times.expires)


class Wrong:
    """A claim that is there and is not of its type."""


WRONG = Wrong()


class _Times(NamedTuple):
    expires: datetime
    begins: datetime
    """The later of `iat` and `nbf`; long ago where there is neither."""


def _times(claims: Mapping[str, Any]) -> _Times | None:
    """When a token is valid; None where it does not end, or a claim is no NumericDate (RFC 7519, 2)."""
    found = {name: _instant(claims[name]) for name in ("exp", "iat", "nbf") if name in claims}
    if "exp" not in found or None in found.values():
        return None
    told = {name: at for name, at in found.items() if at is not None}
    return _Times(told["exp"], max(told.get("iat", LONG_AGO), told.get("nbf", LONG_AGO)))


def _instant(value: object) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LAST_SECOND:
        return None  # what is no number is not between these two either
    return datetime.fromtimestamp(value, UTC)


def _only_audience(aud: object) -> str | None:
    if isinstance(aud, list) and len(aud) == 1:
        aud = aud[0]
    return aud if isinstance(aud, str) else None


def _audiences(aud: object) -> set[str]:
    many = aud if isinstance(aud, list) else [aud]
    return {one for one in many if isinstance(one, str)}


def _media_type(typ: object) -> str | None:
    """RFC 7515, 4.1.9: compared without case, and `application/` may be left out."""
    return typ.lower().removeprefix("application/") if isinstance(typ, str) else None


def _scope_claim(claims: Mapping[str, Any]) -> tuple[str, ...] | Wrong | None:
    """What a person's token allows: `scope` (RFC 8693, 4.2), or `scp` as others call it, a text or a list."""
    for name in ("scope", "scp"):
        if name not in claims:
            continue
        said = claims[name]
        if isinstance(said, str):
            said = said.split()
        if not isinstance(said, list) or not all(isinstance(member, str) for member in said):
            return WRONG
        return tuple(dict.fromkeys(said))
    return None
