"""Three pages without a person: does the process live, can it take calls, and its numbers.

The first two tell a stranger nothing but yes or no. The numbers name repositories: without a token of their own they
are for this machine alone, asked directly.
"""

from __future__ import annotations

import ipaddress

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from keel.ids import digest, same_digest
from rift.deps import Deps
from rift.health.collector import Page
from rift.health.state import Health
from rift.settings import is_loopback

NOT_STORED = {"Cache-Control": "no-store"}
FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""What a proxy adds: whoever asked is then somebody else, wherever the proxy runs."""
HERE_ONLY = (
    "The numbers are for this machine alone, asked directly. Rift:Telemetry:MetricsToken lets others read them, with "
    "that bearer token.\n"
)


def health_routes(deps: Deps) -> list[BaseRoute]:
    """`/healthz`, `/readyz`, `/metrics`."""
    health = Health(deps)
    page = Page(deps, health)
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
        refused = _refused(request, token)
        if refused is not None:
            return refused
        text, media = await page.get(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": media, **NOT_STORED})

    return [Route("/healthz", healthy), Route("/readyz", ready), Route("/metrics", metrics)]


def _refused(request: Request, token: str | None) -> Response | None:
    if token is not None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and same_digest(digest(token), digest(given.strip())):
            return None
        return PlainTextResponse("The numbers need the bearer token of Rift:Telemetry:MetricsToken.\n", 401,
                                 headers={"WWW-Authenticate": "Bearer", **NOT_STORED})  # fmt: skip
    near = request.client is not None and _loopback(request.client.host)
    if near and is_loopback(_name(request)) and not any(name in request.headers for name in FORWARDED):
        return None
    return PlainTextResponse(HERE_ONLY, 403, headers=NOT_STORED)


def _name(request: Request) -> str:
    """The name in the request's Host header, without its port; "" for one that is no name."""
    hosts = request.headers.getlist("host")
    name, _, port = hosts[0].rpartition(":") if len(hosts) == 1 and ":" in hosts[0] else ("".join(hosts[:1]), "", "")
    return name.removeprefix("[").removesuffix("]").lower() if not port or port.isdecimal() else ""


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
