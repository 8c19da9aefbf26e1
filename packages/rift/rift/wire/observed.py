"""What surrounds every HTTP request: its id, its line in the log, its numbers, and what a fault looks like outside.

The id is always ours: one that came with a request could be another request's, or hold what no log should.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keel.clock import Clock
from keel.ids import Ids
from keel.telemetry import logs, tracing
from rift import meters

EXCHANGE_KEY = "rift.exchange"
"""Where the ASGI scope carries the request's `Exchange`."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET = ("/agent/", "/healthz", "/readyz", "/metrics")
"""Routes that machines ask all day: their lines are for debugging."""

log = structlog.get_logger()


@dataclass(slots=True)
class Exchange:
    """One request: its id, when it came, where in whose trace, and its span once somebody known has begun one."""

    id: str
    began: datetime
    parent: tracing.Place | None
    span: tracing.Span = field(default_factory=tracing.Span)


class Observed:
    """An application of ours with all of that around it. Nothing of a query, a header or a body is told."""

    def __init__(self, app: ASGIApp, *, clock: Clock, ids: Ids) -> None:
        self._app = app
        self._clock = clock
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(f"r-{self._ids.hex(12)}", self._clock.now(), _parent(scope))
        scope[EXCHANGE_KEY] = exchange
        started, status = self._clock.monotonic(), 0

        async def tell(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", exchange.id.encode())]
            await send(message)

        with logs.about(request=exchange.id):
            try:
                await self._app(scope, receive, tell)
            except Exception:
                log.exception("http.failed", route=_route(scope))
                if not status:
                    await fault(Request(scope), None)(scope, receive, tell)
            finally:
                self._note(scope, exchange, status, self._clock.monotonic() - started)

    def _note(self, scope: Scope, exchange: Exchange, status: int, seconds: float) -> None:
        route, method = _route(scope), scope["method"] if scope["method"] in METHODS else "other"
        meters.HTTP_REQUESTS.labels(method, route, str(status) if status else "none").inc()
        meters.HTTP_SECONDS.labels(route).observe(seconds)
        say = log.debug if route.startswith(QUIET) else log.info
        say("http.request", method=method, route=route, status=status or None, ms=round(seconds * 1000, 1))
        exchange.span.say(status=status)
        exchange.span.end()


def exchange_of(scope: Scope) -> Exchange | None:
    """The request's exchange; None for an application that is served bare."""
    found: Any = scope.get(EXCHANGE_KEY)
    return found if isinstance(found, Exchange) else None


@contextmanager
def observed_call(
    scope: Scope, tool: str, params: Mapping[str, Any] | None, ids: Ids
) -> Iterator[tuple[str, tracing.Span]]:
    """A call of a tool by somebody known: its request's id, and its span, for the length of the block.

    Only here does a request's own span begin, so that strangers fill nobody's traces. It stands under the caller's
    place: the one in the call's `_meta` (MCP 2026-07-28), else the header's.
    """
    exchange = exchange_of(scope)
    id = exchange.id if exchange else f"r-{ids.hex(12)}"
    above: tracing.Place | None = None
    if tracing.on() and exchange is not None:
        meta = (params or {}).get("_meta")
        parent = (tracing.parse(meta.get("traceparent")) if isinstance(meta, Mapping) else None) or exchange.parent
        exchange.span = tracing.begin(
            f"{scope['method']} {_route(scope)}", "server", parent, exchange.began,
            method=scope["method"], route=_route(scope), request=id,
        )  # fmt: skip
        above = exchange.span.place
    facts = {"trace_id": f"{above.trace:032x}"} if above else {}
    with logs.about(request=id, **facts), tracing.span(tool, parent=above, tool=tool, request=id) as span:
        yield id, span


def fault(request: Request, error: Exception | None) -> Response:
    """The answer to a request at which we failed: the id under which the log tells why, and nothing else."""
    exchange = exchange_of(request.scope)
    return JSONResponse({"error": "Rift failed at this request", "request": exchange.id if exchange else None}, 500)


def _route(scope: Scope) -> str:
    """The pattern that the path fits, of those we serve; never the path itself."""
    return getattr(scope.get("route"), "path", None) or "other"


def _parent(scope: Scope) -> tracing.Place | None:
    """The caller's place in a trace of theirs; None for a header that is there twice or is not one."""
    if not tracing.on():
        return None
    found = [value for name, value in scope["headers"] if name == b"traceparent"]
    return tracing.parse(found[0].decode("latin-1")) if len(found) == 1 else None
