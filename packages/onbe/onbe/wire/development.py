"""`/development/…`: an identity provider with one person, to try Onbe with. In development alone, and on loopback.

Shaped as OpenID Connect Discovery 1.0 and RFC 7517 are; its token endpoint is not: it asks for no password.

- `POST /development/token`, a form with `scope` (and `audience`, Onbe itself without): a subject token.
- `GET` and `POST /development/person`, JSON `{"enabled": false}`: how the person is, and what off-boards them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel.web.sources import FORWARDED
from onbe.deps import Deps
from onbe.drivers.development.protocol import DevelopmentIssuer
from onbe.settings import is_loopback

BODY_BYTES = 4096
TOKENS = r"[!#-\[\]-~]+"
"""A scope's or an audience's characters (RFC 6749, 3.3)."""
NO_STORE = {"Cache-Control": "no-store"}

Endpoint = Callable[[DevelopmentIssuer, Request], Awaitable[Response]]


def routes(deps: Deps) -> list[BaseRoute]:
    """Its paths; none outside development."""
    own = deps.development
    if own is None:
        return []

    async def discovery(own: DevelopmentIssuer, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": own.issuer,
                "jwks_uri": f"{own.issuer}/jwks.json",
                "token_endpoint": f"{own.issuer}/token",
                "response_types_supported": [],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
                "claims_supported": ["iss", "sub", "aud", "iat", "exp", "email", "scope"],
            }
        )

    async def token(own: DevelopmentIssuer, request: Request) -> Response:
        form = dict(parse_qsl(await _body(request), keep_blank_values=True))
        scopes, audience = form.get("scope", "").split(), form.get("audience") or deps.settings.issuer
        if not all(re.fullmatch(TOKENS, word) for word in (*scopes, audience)):
            return _refused(400, "invalid_request", "scope is words with spaces between them, audience one word")
        made = own.token(scopes, audience)
        if made is None:
            return _refused(400, "access_denied", "The person is disabled.")
        text, lasts = made
        answer = {"access_token": text, "token_type": "Bearer", "expires_in": lasts, "scope": " ".join(scopes)}
        return JSONResponse(answer, headers=NO_STORE)

    async def person(own: DevelopmentIssuer, request: Request) -> Response:
        if request.method == "POST":
            # JSON alone: what a page of a stranger may send here without asking first is a form or plain text
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                return _refused(415, "invalid_request", "The body should be application/json.")
            try:
                said = json.loads(await _body(request))
            except (ValueError, RecursionError):
                said = None
            if not isinstance(said, dict) or said.keys() != {"enabled"} or not isinstance(said["enabled"], bool):
                return _refused(400, "invalid_request", 'The body should be {"enabled": true} or {"enabled": false}.')
            own.enable(said["enabled"])
        return JSONResponse({"id": own.person, "enabled": own.enabled}, headers=NO_STORE)

    return [
        Route("/development/.well-known/openid-configuration", _local(own, discovery), methods=["GET"]),
        Route("/development/jwks.json", _local(own, _keys), methods=["GET"]),
        Route("/development/token", _local(own, token), methods=["POST"]),
        Route("/development/person", _local(own, person), methods=["GET", "POST"]),
    ]


async def _keys(own: DevelopmentIssuer, request: Request) -> Response:
    return JSONResponse(dict(own.jwks()))


def _local(own: DevelopmentIssuer, endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint for callers of this machine who also call it so; for anybody else it does not exist.

    A name that leads here but is not this machine's is how a stranger's page would reach it through a browser; a
    header of a proxy is how somebody else's machine would.
    """

    async def answered(request: Request) -> Response:
        near = request.client is None or is_loopback(request.client.host)
        through = any(name in FORWARDED for name, _ in request.scope["headers"])
        if not near or not _is_here(request.headers.get("host", "")) or through:
            return JSONResponse({"error": "not_found"}, 404)
        try:
            return await endpoint(own, request)
        except _TooMuch:
            return _refused(413, "invalid_request", f"The body is over {BODY_BYTES} bytes.")
        except UnicodeDecodeError:
            return _refused(400, "invalid_request", "The body is not UTF-8.")

    return answered


def _is_here(host: str) -> bool:
    found = re.fullmatch(r"(?:([\w.-]+)|\[([0-9a-f:.]+)\])(?::\d{1,5})?", host, re.IGNORECASE | re.ASCII)
    return found is not None and is_loopback((found[1] or found[2]).lower())


class _TooMuch(Exception):
    """The body is too long."""


async def _body(request: Request) -> str:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            raise _TooMuch
    return body.decode()


def _refused(status: int, error: str, sentence: str) -> Response:
    return JSONResponse({"error": error, "error_description": sentence}, status, headers=NO_STORE)
