"""Pages without a person: does the process live, can it take requests."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from onbe.deps import Deps

NOT_STORED = {"Cache-Control": "no-store"}


def routes(deps: Deps) -> list[BaseRoute]:
    """`/healthz`."""

    async def healthy(request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=NOT_STORED)

    return [Route("/healthz", healthy)]
