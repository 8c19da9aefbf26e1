"""Three pages without a person: does the process live, can it take calls, and its numbers.

The first two tell a stranger nothing but yes or no. The numbers name repositories: without a token of their own they
are for this machine alone, asked directly.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel.web.numbers import NOT_STORED, refused
from rift.deps import Deps
from rift.health.collector import page
from rift.health.state import Health


def health_routes(deps: Deps) -> list[BaseRoute]:
    """`/healthz`, `/readyz`, `/metrics`."""
    health = Health(deps)
    numbers = page(deps, health)
    token = deps.settings.telemetry.metrics_token

    async def healthy(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NOT_STORED)

    async def ready(request: Request) -> Response:
        checks = await health.checks.get()
        told = {name: "ok" if holds else "failing" for name, holds in checks.items()}
        status = "ready" if all(checks.values()) else "not ready"
        return JSONResponse(
            {"status": status, "checks": told}, 200 if all(checks.values()) else 503, headers=NOT_STORED
        )

    async def metrics(request: Request) -> Response:
        refusal = refused(request, token, "Rift:Telemetry:MetricsToken")
        if refusal is not None:
            return refusal
        text, media = await numbers.get(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": media, **NOT_STORED})

    return [Route("/healthz", healthy), Route("/readyz", ready), Route("/metrics", metrics)]
