"""What surrounds every HTTP request: its id, its line in the log, its numbers, and what a fault looks like outside.

The id is always ours: one that came with a request could be another request's, or hold what no log should.
"""

from __future__ import annotations

from collections.abc import Callable
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

EXCHANGE_KEY = "keel.exchange"
"""Where the ASGI scope carries the request's `Exchange`."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET = ("/healthz", "/readyz", "/metrics")
"""Routes that machines ask all day: their lines are for debugging."""

log = structlog.get_logger()

Count = Callable[[str, str, int, float], None]
"""Told of each request once it is over: method, route, status (0 where none was sent), seconds."""
Fault = Callable[[str | None], Response]
"""The answer to a request at which we failed, from the id under which the log tells why."""


@dataclass(slots=True)
class Exchange:
    """One request: its id, when it came, where in whose trace, and its span once somebody known has begun one."""

    id: str
    began: datetime
    parent: tracing.Place | None
    span: tracing.Span = field(default_factory=tracing.Span)


class Observed:
    """An application of ours with all of that around it. Nothing of a query, a header or a body is told.

    `quiet` are prefixes of routes whose lines are for debugging.
    """

    def __init__(
        self, app: ASGIApp, *, clock: Clock, ids: Ids, count: Count, fault: Fault, quiet: tuple[str, ...] = QUIET
    ) -> None:
        self._app = app
        self._clock = clock
        self._ids = ids
        self._count = count
        self._fault = fault
        self._quiet = quiet

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
                log.exception("http.failed", route=route_of(scope))
                if not status:
                    await self._fault(exchange.id)(scope, receive, tell)
            finally:
                self._note(scope, exchange, status, self._clock.monotonic() - started)

    def _note(self, scope: Scope, exchange: Exchange, status: int, seconds: float) -> None:
        route, method = route_of(scope), scope["method"] if scope["method"] in METHODS else "other"
        self._count(method, route, status, seconds)
        say = log.debug if route.startswith(self._quiet) else log.info
        say("http.request", method=method, route=route, status=status or None, ms=round(seconds * 1000, 1))
        exchange.span.say(status=status)
        exchange.span.end()


def exchange_of(scope: Scope) -> Exchange | None:
    """The request's exchange; None for an application that is served bare."""
    found: Any = scope.get(EXCHANGE_KEY)
    return found if isinstance(found, Exchange) else None


def handler(fault: Fault) -> Callable[[Request, Exception], Response]:
    """The same answer, for `Starlette(exception_handlers={Exception: …})`."""

    def answer(request: Request, error: Exception) -> Response:
        exchange = exchange_of(request.scope)
        return fault(exchange.id if exchange else None)

    return answer


def failed(product: str) -> Fault:
    """A fault of a product whose answers are JSON: `{"error": …, "request": …}`, and nothing else."""
    return lambda id: JSONResponse({"error": f"{product} failed at this request", "request": id}, 500)


def route_of(scope: Scope) -> str:
    """The pattern that the path fits, of those we serve; never the path itself."""
    return getattr(scope.get("route"), "path", None) or "other"


def _parent(scope: Scope) -> tracing.Place | None:
    """The caller's place in a trace of theirs; None for a header that is there twice or is not one."""
    if not tracing.on():
        return None
    found = [value for name, value in scope["headers"] if name == b"traceparent"]
    return tracing.parse(found[0].decode("latin-1")) if len(found) == 1 else None
