"""The door before the MCP endpoint: which host was asked, from which page, under which token, and how much was sent.

It answers before anything else looks at a request, so also a client that only probes with a GET learns how to sign in.
Sources: MCP 2026-07-28 (Streamable HTTP, Security; Authorization), RFC 6750, RFC 9728.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import structlog
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keel.db import within
from keel.sizes import MIB
from keel.telemetry import logs
from rift.people.model import Caller
from rift.wire.hosts import Hosts
from rift.wire.mcp.budget import Budget

CALLER_KEY = "rift.caller"
"""Where the ASGI scope carries the caller behind the guard."""
BODY_BYTES = 12 * MIB
DRAINED_BYTES = 4 * BODY_BYTES
"""How much of a body that is too large is read away, so that the client gets to read the answer."""
TOKEN_CHARACTERS = 4096
TOKEN_SECONDS = 45.0
"""The longest that a call waits for its token to be looked at."""
CALLS_PER_TOKEN = 2500
UNAUTHORIZED = -32001
TOO_LARGE = -32600
UNAVAILABLE = -32603

log = structlog.get_logger()

Authenticate = Callable[[str], Awaitable[Caller | None]]
"""From a bearer token to whose it is; None for one that is unknown, expired or revoked."""


class Guard:
    """Checks Host, Origin, the bearer token, how many calls it has and the body's size, in this order, then lets it in.

    `hosts` are the names this server answers to; without any, those of loopback. `metadata_url` is the
    protected-resource metadata document.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticate,
        metadata_url: str,
        scope: str = "rift",
        hosts: Hosts | None = None,
        body_bytes: int = BODY_BYTES,
        calls_per_token: int = CALLS_PER_TOKEN,
        budget: Budget | None = None,
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._metadata_url = metadata_url
        self._scope = scope
        self._hosts = hosts or Hosts(())
        self._body_bytes = body_bytes
        self._calls_per_token = calls_per_token
        self._calls: Counter[str] = Counter()
        self._budget = budget or Budget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("the MCP endpoint serves HTTP requests only")
        # Blanks around a value are no part of it (RFC 9110, 5.5), and not every server takes them off.
        scope = {**scope, "headers": [(name, value.strip(b" \t")) for name, value in scope["headers"]]}
        refused = self._place(scope)
        caller = None
        if refused is None:
            try:
                async with within(TOKEN_SECONDS, "looking at a token"):
                    caller = await self._caller(scope)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client is told to come back
                log.error("mcp.cannot_authenticate", error=type(error).__name__)
                message = "Rift cannot check tokens at this moment; try again in some seconds."
                refused = error_response(503, message, {"Retry-After": "5"}, code=UNAVAILABLE)
            else:
                refused = None if caller else self._unauthorized(bool(_header(scope, b"authorization")))
        if refused is not None:
            await refused(scope, receive, send)
            return
        assert caller is not None  # who is not known was refused
        if self._calls[caller.token] >= self._calls_per_token:
            await self._busy(scope, receive, send)
            return
        self._calls[caller.token] += 1
        try:
            await self._within_budget({**scope, CALLER_KEY: caller}, caller, receive, send)
        finally:
            self._calls[caller.token] -= 1
            if not self._calls[caller.token]:
                del self._calls[caller.token]

    async def _within_budget(self, scope: Scope, caller: Caller, receive: Receive, send: Send) -> None:
        """Read the body and have the call answered; its bytes are held until then."""
        async with self._budget.hold(caller.token, min(_declared(scope, self._body_bytes), self._body_bytes)) as met:
            body = self._no_room(met) if met is not None else await self._body(scope, receive)
            if isinstance(body, Response):
                await body(scope, receive, send)
            elif body is not None:
                whole: Message = {"type": "http.request", "body": body, "more_body": False}
                del body  # held once: by the request alone
                await self._app(scope, replay(whole, receive), send)

    def _place(self, scope: Scope) -> Response | None:
        """Refuse a request for another host (a rebound name), or from a page that is not ours."""
        host = _header(scope, b"host")
        if not host or not self._hosts.known(host):
            return error_response(
                421, "This server does not answer to that Host: Rift:Server:Hosts lists those it has."
            )
        origin = _header(scope, b"origin")
        if origin is not None and not self._hosts.known_origin(origin):
            return error_response(403, "This server does not answer to that Origin.")
        return None

    async def _caller(self, scope: Scope) -> Caller | None:
        scheme, _, token = (_header(scope, b"authorization") or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > TOKEN_CHARACTERS:
            return None
        return await self._authenticate(token)

    def _unauthorized(self, presented: bool) -> Response:
        challenge = f'Bearer resource_metadata="{self._metadata_url}", scope="{self._scope}"'
        message = (
            "This call needs a bearer token. A client that signs in by the address of this server gets one from its "
            "person; for others, the Connections page or `rift token new --user EMAIL --client NAME` makes one."
        )
        if presented:
            challenge += ', error="invalid_token", error_description="The token is unknown, expired or revoked"'
            message = (
                "This bearer token is unknown, expired or revoked. Sign the client in again, or make another on the "
                "Connections page or by `rift token new --user EMAIL --client NAME`."
            )
        return error_response(401, message, {"WWW-Authenticate": challenge}, code=UNAUTHORIZED)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """The whole body; the refusal of one that is too large; None when the client went away while sending it."""
        chunks: list[bytes] = []
        size = 0
        more = True
        if _declared(scope, 0) > DRAINED_BYTES:
            return self._too_large()
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None
            chunk = message.get("body", b"")
            size += len(chunk)
            more = message.get("more_body", False)
            if size <= self._body_bytes:
                chunks.append(chunk)
            elif size > DRAINED_BYTES:
                break
        return self._too_large() if size > self._body_bytes else b"".join(chunks)

    def _no_room(self, bound: int) -> Response:
        mebibytes = bound // MIB
        whose, status = ("this token's calls", 429) if bound == self._budget.each else ("calls", 503)
        message = f"The bodies of {whose} that are being answered have {mebibytes} MiB, the most at once."
        return error_response(status, f"{message} Make this call again.", {"Retry-After": "5"}, code=UNAVAILABLE)

    @property
    def _busy(self) -> Response:
        message = (
            f"{self._calls_per_token} calls of this token are being answered, the most at once "
            "(Rift:Server:CallsPerToken). Make this call again when one of them has ended."
        )
        return error_response(429, message, {"Retry-After": "5"}, code=UNAVAILABLE)

    def _too_large(self) -> Response:
        mebibytes = self._body_bytes // MIB
        return error_response(
            413,
            f"The request is larger than {mebibytes} MiB ({self._body_bytes} bytes), so nothing ran. A file of "
            "more than 8 MiB is written in parts: rift_write each to a file of its own, then join them with rift_bash.",
            code=TOO_LARGE,
        )


def mcp_routes(app: ASGIApp) -> list[BaseRoute]:
    """The endpoint's routes: `/mcp` and `/mcp/` alike, without a redirect between them."""
    return [Route("/mcp", app), Route("/mcp/", app)]


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None, *, code: int = -32600
) -> Response:
    """An HTTP error whose body is a JSON-RPC error, which clients show."""
    error: dict[str, object] = {"code": code, "message": message}
    if request := logs.request_id():
        error["data"] = {"request": request}  # finds what the log says of it
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return Response(json.dumps(body), status, headers, "application/json")


def too_many(most: int) -> ASGIApp:
    """The answer on a connection beyond the most that may be open at once."""
    message = f"This Rift has {most} connections open, the most at once (Rift:Server:Connections)."
    return error_response(503, message, {"Retry-After": "5", "Connection": "close"}, code=UNAVAILABLE)


def _header(scope: Scope, name: bytes) -> str | None:
    """A header's value; "" when it is there more than once, so that no two readers take different ones."""
    values = [value for key, value in scope["headers"] if key == name]
    return None if not values else values[0].decode("latin-1") if len(values) == 1 else ""


def _declared(scope: Scope, otherwise: int) -> int:
    """How many bytes a request says that its body has; `otherwise` where it does not say."""
    declared = _header(scope, b"content-length") or ""
    return int(declared[:20]) if declared.isascii() and declared.isdecimal() else otherwise


def replay(first: Message, receive: Receive) -> Receive:
    """A `receive` that gives `first` once, then what the server has to say (that the client went away)."""
    waiting = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
