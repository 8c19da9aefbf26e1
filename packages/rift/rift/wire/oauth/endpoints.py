"""Where a client's own requests go: a token for a code or a refresh token, registering, signing itself out.

Each is asked by programs, without a cookie. Sources: RFC 6749, RFC 7591, RFC 7009.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from keel.buckets import Buckets, Rate
from keel.db import Busy, OperationalError, within
from keel.refusal import Refusal
from keel.sizes import KIB
from keel.web.sources import networks, source
from rift.audit import NotBegun
from rift.connections import actions, refusals
from rift.connections.model import SCOPE, Client, Exchange, Issued, Renewal
from rift.deps import Deps
from rift.wire.hosts import Hosts, hosts_of
from rift.wire.oauth.answers import PREFLIGHT, answer, away, error
from rift.wire.web.refusals import too_often
from rift.wire.web.visit import parse_form

BODY_BYTES = 64 * KIB
ANSWER_SECONDS = 45.0
"""The longest that a client waits for its answer."""
TOKENS = Rate(120, 60.0)
"""So often may one source ask for tokens, or to end them."""
REGISTRATIONS = Rate(30, 600.0)
"""So many clients may one source register."""

log = structlog.get_logger()

Answer = Callable[[bytes], Awaitable[Response | Refusal]]


def oauth_routes(deps: Deps) -> list[BaseRoute]:
    """The routes of all three."""
    endpoints = Endpoints(deps)
    tokens, registrations = Buckets(TOKENS), Buckets(REGISTRATIONS)
    return [
        endpoints.route("/oauth2/token", endpoints.token, tokens),
        endpoints.route("/oauth2/revoke", endpoints.revoke, tokens),
        endpoints.route("/oauth2/register", endpoints.register, registrations),
    ]


class Endpoints:
    """What the three do, and what stands before each: the host, how often, the body's size and its kind."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._hosts: Hosts = hosts_of(deps.settings, deps.settings.server.address)
        self._trusted = networks(deps.settings.server.trusted_proxies)

    def route(self, path: str, asked: Answer, buckets: Buckets) -> Route:
        """The route of one endpoint."""

        async def take(request: Request) -> Response:
            if (other := self._hosts.refused(request)) is not None:
                return other
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=PREFLIGHT)
            who = source(request.scope, self._trusted)
            wait = buckets.take(who, self._deps.clock.monotonic()) if who is not None else 0.0
            try:
                async with within(ANSWER_SECONDS, path):
                    said = too_often(math.ceil(wait)) if wait > 0 else await self._read(request, asked)
            except (OperationalError, Busy, NotBegun) as trouble:
                log.error("oauth.cannot_answer", error=type(trouble).__name__)
                return away()
            return error(said) if isinstance(said, Refusal) else said

        return Route(path, take, methods=["POST", "OPTIONS"])

    async def token(self, body: bytes) -> Response | Refusal:
        """A token for a code, or for a refresh token."""
        form = _form(body)
        if isinstance(form, Refusal):
            return form
        grant = form.get("grant_type", "")
        if grant == "authorization_code":
            missing = _missing(form, "client_id", "code", "redirect_uri", "code_verifier")
            if missing is not None:
                return missing
            issued = await actions.exchange(
                self._deps,
                Exchange(
                    form["client_id"], form["code"], form["redirect_uri"], form["code_verifier"],
                    form.get("resource", ""),
                ),
            )  # fmt: skip
        elif grant == "refresh_token":
            missing = _missing(form, "client_id", "refresh_token")
            if missing is not None:
                return missing
            issued = await actions.renew(
                self._deps, Renewal(form["client_id"], form["refresh_token"], form.get("resource", ""))
            )
        else:
            return refusals.unsupported_grant_type() if grant else refusals.invalid_request("grant_type is missing")
        return issued if isinstance(issued, Refusal) else answer(_issued(issued))

    async def revoke(self, body: bytes) -> Response | Refusal:
        """The client signs itself out. What is unknown is gone already."""
        form = _form(body)
        if isinstance(form, Refusal):
            return form
        missing = _missing(form, "token", "client_id")
        if missing is not None:
            return missing
        await actions.revoke(self._deps, form["token"], form["client_id"])
        return answer({})

    async def register(self, body: bytes) -> Response | Refusal:
        """A client makes itself known."""
        try:
            said = json.loads(body.decode("utf-8"))
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            return refusals.invalid_client_metadata("it is no JSON object")
        client = await actions.register(self._deps, said)
        return client if isinstance(client, Refusal) else answer(_registered(client), 201)

    async def _read(self, request: Request, asked: Answer) -> Response | Refusal:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES:
                    return refusals.invalid_request(f"it is larger than {BODY_BYTES // KIB} KiB")
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        wanted = "application/json" if asked == self.register else "application/x-www-form-urlencoded"
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
            return refusals.invalid_request(f"its Content-Type is to be {wanted}")
        return await asked(bytes(body))


def _form(body: bytes) -> dict[str, str] | Refusal:
    """The parameters of a form, each there once (RFC 6749, 3.2); an empty one is as if it were not there."""
    try:
        fields = parse_form(body)
    except ValueError:
        return refusals.invalid_request("its body is no form")
    twice = [name for name, values in fields.items() if len(values) > 1]
    if twice:
        return refusals.invalid_request(f"{twice[0][:40]} is there more than once")
    return {name: values[0] for name, values in fields.items() if values[0]}


def _missing(form: Mapping[str, str], *names: str) -> Refusal | None:
    without = [name for name in names if name not in form]
    return refusals.invalid_request(f"{', '.join(without)} is missing") if without else None


def _issued(issued: Issued) -> dict[str, Any]:
    return {
        "access_token": issued.access,
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "refresh_token": issued.refresh,
        "scope": SCOPE,
    }


def _registered(client: Client) -> dict[str, Any]:
    return {
        "client_id": client.id,
        "client_id_issued_at": int(client.created_at.timestamp()),
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": SCOPE,
    }
