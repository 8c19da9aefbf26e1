"""`/audit…`: what was recorded, in pages and sums, the checkpoints that seal it, and the proof of one record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from keel.ids import digest, same_digest
from keel.refusal import Refusal, Stop
from onbe.deps import Deps
from onbe.records import actions, decide, refusals
from onbe.wire.refusals import ADMIN, OAUTH, admin_key_wrong, admin_unconfigured, problem

Answer = Callable[[Deps, Request], Awaitable[Any]]
"""What is told of a request, or why it is not."""


def routes(deps: Deps) -> list[BaseRoute]:
    """The paths of the audit, each behind the admin key."""
    paths: dict[str, Answer] = {
        "/audit": _page,
        "/audit/summary": _summary,
        "/audit/checkpoints": _checkpoints,
        "/audit/records/{seq}/proof": _proof,
    }
    return [Route(path, _guarded(deps, answer), methods=["GET"]) for path, answer in paths.items()]


def _guarded(deps: Deps, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        told = _may(deps, request) or await answer(deps, request)
        if isinstance(told, Refusal):
            status, headers, document = problem(told)
            return JSONResponse(document, status, headers, "application/problem+json")
        return JSONResponse(told, headers={"Cache-Control": "no-store"})

    return endpoint


def _may(deps: Deps, request: Request) -> Refusal | None:
    """Whether the request has the admin key."""
    if not deps.settings.admin.keys:
        return admin_unconfigured(Stop())
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    known = [same_digest(digest(one), digest(key)) for one in deps.settings.admin.keys]
    return None if any(known) and scheme.lower() == "bearer" else admin_key_wrong(Stop())


async def _page(deps: Deps, request: Request) -> Any:
    wanted = decide.wanted(request.query_params.multi_items(), {*OAUTH, *ADMIN})
    if isinstance(wanted, list):
        return refusals.invalid_query(wanted)
    found = await actions.page(deps, wanted)
    return {"records": [entry.told() for entry in found.entries], "next": found.next}


async def _summary(deps: Deps, request: Request) -> Any:
    span = decide.span(request.query_params.multi_items(), deps.clock.now())
    if isinstance(span, list):
        return refusals.invalid_query(span)
    found = await actions.summary(deps, span)
    return {
        "by": span.by,
        "from": span.since.isoformat(),
        "to": span.until.isoformat(),
        "sums": [{span.by: one.key, "allow": one.allowed, "deny": one.denied} for one in found.sums],
        "more": found.more,
    }


async def _checkpoints(deps: Deps, request: Request) -> Any:
    series = decide.series(request.query_params.multi_items())
    if isinstance(series, list):
        return refusals.invalid_query(series)
    found = await actions.checkpoints(deps, series)
    return {
        "checkpoints": [signed.told() for signed in found.found],
        "next": found.next,
        "newest": found.head.told() if found.head else None,
    }


async def _proof(deps: Deps, request: Request) -> Any:
    seq = decide.number(request.path_params["seq"])
    if isinstance(seq, list):
        return refusals.invalid_query(seq)
    made = await actions.prove(deps, seq)
    return made if isinstance(made, Refusal) else made.told()
