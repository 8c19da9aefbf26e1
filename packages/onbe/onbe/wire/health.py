"""Three pages without a person: does the process live, can it take requests, and its numbers.

The first two tell a stranger nothing but yes or no. The numbers, without a token of their own, are for this machine
alone, asked directly.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel.web.numbers import NOT_STORED, refused
from onbe.deps import Deps
from onbe.health.state import Health


def routes(deps: Deps) -> list[BaseRoute]:
    """`/healthz`, `/readyz`, `/metrics`."""
    health = Health(deps)

    async def healthy(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NOT_STORED)

    async def ready(request: Request) -> Response:
        checks = await health.checks.get()
        told = {name: "ok" if holds else "failing" for name, holds in checks.items()}
        all_hold = all(checks.values())
        body = {"status": "ready" if all_hold else "not ready", "checks": told}
        return JSONResponse(body, 200 if all_hold else 503, headers=NOT_STORED)

    async def metrics(request: Request) -> Response:
        refusal = refused(request, deps.settings.telemetry.metrics_token, "Onbe:Telemetry:MetricsToken")
        if refusal is not None:
            return refusal
        text, media = await health.page.get(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": media, **NOT_STORED})

    return [Route("/healthz", healthy), Route("/readyz", ready), Route("/metrics", metrics)]
