"""What Rift adds to what surrounds every request (`keel.web.observed`): its numbers, and a tool call's span."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.types import ASGIApp, Scope

from keel.clock import Clock
from keel.ids import Ids
from keel.telemetry import logs, tracing
from keel.web.observed import QUIET, Observed, exchange_of, failed, handler, route_of
from rift import meters

fault = failed("Rift")
on_fault = handler(fault)
"""For the applications inside."""


def observed(app: ASGIApp, clock: Clock, ids: Ids) -> ASGIApp:
    """An application of Rift's with its id, log line, numbers and faults around it."""
    return Observed(app, clock=clock, ids=ids, count=_count, fault=fault, quiet=("/agent/", *QUIET))


def _count(method: str, route: str, status: int, seconds: float) -> None:
    meters.HTTP_REQUESTS.labels(method, route, str(status) if status else "none").inc()
    meters.HTTP_SECONDS.labels(route).observe(seconds)


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
            f"{scope['method']} {route_of(scope)}", "server", parent, exchange.began,
            method=scope["method"], route=route_of(scope), request=id,
        )  # fmt: skip
        above = exchange.span.place
    facts = {"trace_id": f"{above.trace:032x}"} if above else {}
    with logs.about(request=id, **facts), tracing.span(tool, parent=above, tool=tool, request=id) as span:
        yield id, span
