"""`/audit…`: what was recorded, in pages and sums, the checkpoints that seal it, and the proof of one record.

Reading is not recorded, or each page would make the next one longer; a wrong key is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, request_response

from keel.refusal import Refusal
from onbe.deps import Deps
from onbe.records import actions, decide, refusals
from onbe.wire.admin.answers import answer, refused
from onbe.wire.admin.guard import Guard
from onbe.wire.refusals import ADMIN, OAUTH

Tell = Callable[[Deps, Request], Awaitable[Any]]
"""What is told of a request, or why it is not."""


def routes(deps: Deps) -> list[BaseRoute]:
    """The paths of the audit, each behind the admin key."""
    paths: dict[str, Tell] = {
        "/audit": _page,
        "/audit/summary": _summary,
        "/audit/checkpoints": _checkpoints,
        "/audit/records/{seq}/proof": _proof,
    }
    return [
        Route(path, Guard(request_response(_answering(deps, tell)), deps), methods=["GET"])
        for path, tell in paths.items()
    ]


def _answering(deps: Deps, tell: Tell) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        told = await tell(deps, request)
        return refused(told) if isinstance(told, Refusal) else answer(told)

    return endpoint


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
