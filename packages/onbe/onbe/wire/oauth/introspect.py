"""`POST /oauth2/introspect` (RFC 7662): is this token good at this moment?

Who may ask, and with what, is told in `credentials.actions`: an agent or tool server with an assertion, as at the token
endpoint, or the admin API's key as a bearer token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel.db import Busy, OperationalError
from keel.ids import digest, same_digest
from keel.refusal import Refusal, Retry, Stop
from onbe import names
from onbe.audit import Row, stranger
from onbe.credentials import actions
from onbe.credentials.model import Active, Ask, Inactive
from onbe.deps import Deps
from onbe.wire.oauth.forms import malformed, read_form
from onbe.wire.oauth.revoke import asked_for
from onbe.wire.oauth.token import NOT_STORED, refused
from onbe.wire.refusals import admin_key_wrong, database_away

TOLD = ("scope", "client_id", "sub", "aud", "iss", "exp", "iat", "jti", "act", "task", "introspect_required")
"""Claims that are told of a token that is good."""

log = structlog.get_logger("onbe.introspect")


def routes(deps: Deps) -> list[BaseRoute]:
    """`/oauth2/introspect`."""
    keys, known = deps.settings.admin.digests, actions.Known()

    async def introspect(request: Request) -> Response:
        started = deps.clock.monotonic()
        try:
            answer = await _answer(deps, request, keys, known, started)
        except (OperationalError, Busy) as error:
            log.warning("database.away", trouble=type(error).__name__)
            answer = database_away(Retry(1))
        return refused(answer) if isinstance(answer, Refusal) else JSONResponse(told(answer), headers=NOT_STORED)

    return [Route(names.INTROSPECT_PATH, introspect, methods=["POST"])]


def told(standing: Active | Inactive) -> dict[str, Any]:
    """The members of an answer. Source: RFC 7662, 2.2; RFC 8693, 4.1."""
    if isinstance(standing, Active):
        claims = {name: standing.claims[name] for name in TOLD if name in standing.claims}
        return {"active": True, "token_type": "Bearer", **claims}
    if standing.revoked_at is None:
        return {"active": False}
    return {
        "active": False,
        "revoked_at": int(standing.revoked_at.timestamp()),
        "revocation_reason": standing.reason,
    }


async def _answer(
    deps: Deps, request: Request, keys: tuple[bytes, ...], known: actions.Known, started: float
) -> Active | Inactive | Refusal:  # fmt: skip
    bearer = request.headers.getlist("authorization")
    if bearer and not _is_key(bearer, keys):
        ask: Ask | Refusal = admin_key_wrong(Stop())
    else:
        form = await read_form(request)
        ask = form if isinstance(form, Refusal) else _administrators(form) if bearer else asked_for(form)
    if isinstance(ask, Refusal):
        return await stranger(deps, Row("token.introspect", started), ask)
    return await actions.introspect(deps, ask, started, known)


def _administrators(form: Mapping[str, str]) -> Ask | Refusal:
    other = [name for name in ("client_assertion", "client_assertion_type", "client_secret") if name in form]
    if other:
        return malformed(f"{', '.join(other)} cannot be taken with Authorization")
    return Ask(None, form["token"]) if "token" in form else malformed("token is missing")


def _is_key(bearer: list[str], keys: tuple[bytes, ...]) -> bool:
    scheme, _, key = bearer[0].strip().partition(" ")
    presented = digest(key.strip())
    fits = [same_digest(one, presented) for one in keys]  # each is compared, whichever fits
    return len(bearer) == 1 and scheme.lower() == "bearer" and any(fits)
