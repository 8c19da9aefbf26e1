"""What is told of an exchange or a refresh once it is decided: a number, and a span in the agent's trace."""

from __future__ import annotations

from starlette.types import Scope

from keel.telemetry import tracing
from keel.web.observed import exchange_of, route_of
from onbe import meters
from onbe.wire.refusals import OAUTH


def decided(scope: Scope, outcome: str) -> None:
    """Count it and, unless a stranger asked, trace it: `ok`, or the reason why not.

    A request's span begins here, in hindsight, so that strangers fill nobody's traces; it ends with the answer.
    """
    meters.TOKENS.labels(outcome).inc()
    exchange = exchange_of(scope)
    if not tracing.on() or exchange is None or OAUTH.get(outcome, (0, ""))[1] == "invalid_client":
        return
    exchange.span = tracing.begin(
        f"{scope['method']} {route_of(scope)}", "server", exchange.parent, exchange.began,
        method=scope["method"], route=route_of(scope), request=exchange.id, reason=outcome,
    )  # fmt: skip
