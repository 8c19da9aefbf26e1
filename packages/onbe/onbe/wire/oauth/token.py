"""`POST /oauth2/token`: token exchange (RFC 8693) and refresh (RFC 6749, 6) by agents with a private key (RFC 7523)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel.db import Busy, OperationalError
from keel.refusal import Refusal, Retry, Stop
from onbe import names
from onbe.audit import Row, stranger
from onbe.deps import Deps
from onbe.grants import actions, refusals
from onbe.grants.decide import is_resource
from onbe.grants.model import Exchange, Issued, Refresh
from onbe.tokens.decide import scope_of
from onbe.wire.oauth.forms import malformed, read_form
from onbe.wire.observed import decided
from onbe.wire.refusals import database_away, oauth_error

GRANTS = (names.EXCHANGE, names.REFRESH)
NEEDED: Mapping[str, tuple[str, ...]] = {
    names.EXCHANGE: ("subject_token", "subject_token_type", "actor_token", "actor_token_type", "resource"),
    names.REFRESH: ("refresh_token", "client_assertion", "client_assertion_type"),
}
TYPES: Mapping[str, tuple[str, ...]] = {
    "subject_token_type": names.SUBJECT_TYPES,
    "actor_token_type": names.ACTOR_TYPES,
    "client_assertion_type": (names.ASSERTION_TYPE,),
    "requested_token_type": (names.ISSUED_AS,),
}
OTHER_CREDENTIALS: Mapping[str, tuple[str, ...]] = {
    names.EXCHANGE: ("client_secret", "client_assertion", "client_assertion_type"),
    names.REFRESH: ("client_secret", "actor_token", "actor_token_type"),
}
"""An agent shows itself in one way only (RFC 6749, 2.3)."""
NOT_STORED = {"Cache-Control": "no-store", "Pragma": "no-cache"}

log = structlog.get_logger("onbe.token")


def routes(deps: Deps) -> list[BaseRoute]:
    """`/oauth2/token`."""

    async def token(request: Request) -> Response:
        started = deps.clock.monotonic()
        try:
            answer = await _answer(deps, request, started)
        except (OperationalError, Busy) as error:
            log.warning("database.away", trouble=type(error).__name__)
            answer = database_away(Retry(1))
        decided(request.scope, answer.code if isinstance(answer, Refusal) else "ok")
        return refused(answer) if isinstance(answer, Refusal) else JSONResponse(given(answer), headers=NOT_STORED)

    return [Route(names.ENDPOINT, token, methods=["POST"])]


def refused(refusal: Refusal) -> Response:
    """The answer to a request that is refused."""
    status, headers, body = oauth_error(refusal)
    return JSONResponse(body, status, headers)


def given(issued: Issued) -> dict[str, Any]:
    """The members of an answer that gives a token. Source: RFC 8693, 2.2.1.

    A refresh gives no `refresh_token`: the grant that was sent stays the one to keep (RFC 6749, 6).
    """
    body: dict[str, Any] = {
        "access_token": issued.token,
        "issued_token_type": names.ISSUED_AS,
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "scope": " ".join(issued.scope),
        "task_id": issued.task,
        "task_expires_at": issued.task_expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if issued.grant is not None:
        body["refresh_token"] = issued.grant
    return body


async def _answer(deps: Deps, request: Request, started: float) -> Issued | Refusal:
    if "authorization" in request.headers:
        form: Mapping[str, str] | Refusal = malformed("An agent shows itself by its assertion, not by Authorization")
    else:
        form = await read_form(request)
    asked = form if isinstance(form, Refusal) else asked_for(form)
    match asked:
        case Exchange():
            return await actions.exchange(deps, asked, started)
        case Refresh():
            return await actions.refresh(deps, asked, started)
    refreshes = isinstance(form, Mapping) and form.get("grant_type") == names.REFRESH
    return await stranger(deps, Row("token.refresh" if refreshes else "token.exchange", started), asked)


def asked_for(form: Mapping[str, str]) -> Exchange | Refresh | Refusal:
    """What a form asks for."""
    grant_type = form.get("grant_type")
    if grant_type is None:
        return malformed("grant_type is missing")
    if grant_type not in GRANTS:
        return refusals.unsupported_grant(Stop(), supported=", ".join(GRANTS))
    missing = [name for name in NEEDED[grant_type] if name not in form]
    if missing:
        return malformed(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    other = [name for name in OTHER_CREDENTIALS[grant_type] if name in form]
    if other:
        return malformed(f"{', '.join(other)} cannot be taken with this grant_type")
    for parameter, supported in TYPES.items():
        if form.get(parameter, supported[0]) not in supported:
            return refusals.unsupported_token_type(Stop(), parameter=parameter, supported=", ".join(supported))
    return _exchange_or_refresh(grant_type, form)


def _exchange_or_refresh(grant_type: str, form: Mapping[str, str]) -> Exchange | Refresh | Refusal:
    resource, said = form.get("resource"), form.get("scope")
    if resource is not None and not is_resource(resource):
        return refusals.resource_malformed(Stop())
    scope = None if said is None else scope_of(said)
    if said is not None and (scope is None or len(said) > names.SCOPE_LENGTH):
        return refusals.scope_malformed(Stop())
    if grant_type == names.REFRESH:
        return Refresh(form["client_assertion"], form["refresh_token"], resource, scope, form.get("client_id"))
    assert resource is not None  # one of those that are needed
    return Exchange(form["actor_token"], form["subject_token"], resource, scope, form.get("client_id"))
