"""What a verified task token says, and whether that is enough. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from onbe_client.answers import words
from onbe_client.guard.denied import Denied
from onbe_client.steps import whole

TYP = ("at+jwt", "application/at+jwt")
"""RFC 9068, 2.1."""
NAME_LENGTH = 512
"""The most characters of a name that is taken from a claim."""


@dataclass(frozen=True, slots=True)
class Actor:
    """An agent on the way: its id, and the name of its process where it has one."""

    id: str
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class TaskToken:
    """Who acts for whom, and how far. Nothing in it is a secret."""

    subject: str
    """The person (`sub`)."""
    agent: str
    """The agent that acts now (`act.sub`)."""
    chain: tuple[Actor, ...]
    """All agents on the way, the one that acts now first."""
    scope: tuple[str, ...]
    audience: str
    task_id: str
    jti: str
    expires_at: datetime
    task_expires_at: datetime
    introspect_required: bool

    def allows(self, *scopes: str) -> bool:
        """Whether the token holds all of these scopes."""
        return set(scopes) <= set(self.scope)


def read(
    header: Mapping[str, Any],
    claims: Mapping[str, Any],
    *,
    issuer: str,
    audience: str,
    now: float,
    leeway: float,
    max_depth: int,
) -> TaskToken:
    """The token, if it is one of this issuer's for this audience, now. Its signature was verified. Raises Denied.

    `leeway`: seconds by which clocks may differ. It lets a token pass that much after its own `exp` and before its
    `iat`, but never at or after the end of its task.
    """
    if str(header.get("typ", "")).lower() not in TYP:
        raise _no("typ", "The token is not an access token.")
    if claims.get("iss") != issuer:
        raise _no("issuer", "The token is another issuer's.")
    aud = claims.get("aud")
    if aud != audience and aud != [audience]:
        raise _no("audience", "The token is for another audience.")
    task = claims.get("task")
    if not isinstance(task, dict):
        raise _no("task", "The token is not a task token.")
    exp, iat, task_exp = (whole(value, 0, 4e9) for value in (claims.get("exp"), claims.get("iat"), task.get("exp")))
    if exp is None or iat is None or task_exp is None:
        raise _no("times", "The token does not say when it begins and ends.")
    if now >= exp + leeway or now >= task_exp or exp > task_exp:
        raise _no("expired", "The token has expired.")
    if iat > now + leeway or ("nbf" in claims and (whole(claims["nbf"], 0, 4e9) or 5e9) > now + leeway):
        raise _no("not_yet", "The token is not valid yet.")
    chain = _chain(claims.get("act"), max_depth)
    if claims.get("client_id", chain[0].id) != chain[0].id:
        raise _no("actor", "The token was given to another agent than the one that acts.")
    said = claims.get("scope", "")
    try:
        scope = words(said) if isinstance(said, str) else None
    except ValueError:
        scope = None
    if scope is None:
        raise _no("scope", "The token's scope is none.")
    required = claims.get("introspect_required", False)
    return TaskToken(
        subject=_name(claims.get("sub"), "sub"),
        agent=chain[0].id,
        chain=chain,
        scope=scope,
        audience=audience,
        task_id=_name(task.get("id"), "task.id"),
        jti=_name(claims.get("jti"), "jti"),
        expires_at=datetime.fromtimestamp(exp, UTC),
        task_expires_at=datetime.fromtimestamp(task_exp, UTC),
        introspect_required=required is not False,
    )


def _chain(act: object, max_depth: int) -> tuple[Actor, ...]:
    """The agents of `act`, which nests (RFC 8693, 4.1). Raises Denied beyond `max_depth` of them."""
    found: list[Actor] = []
    while act is not None:
        if not isinstance(act, dict):
            raise _no("actor", "The token does not say who acts.")
        if len(found) == max_depth:
            raise _no("depth", f"The token was delegated more often than is taken here ({max_depth}).")
        instance = act.get("instance")
        found.append(Actor(_name(act.get("sub"), "act.sub"), instance if isinstance(instance, str) else None))
        act = act.get("act")
    if not found:
        raise _no("actor", "The token does not say who acts.")
    return tuple(found)


def _name(value: object, claim: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= NAME_LENGTH:
        raise _no("claims", f"The token's {claim} is missing.")
    return value


def _no(reason: str, description: str) -> Denied:
    return Denied("invalid_token", reason, description)
