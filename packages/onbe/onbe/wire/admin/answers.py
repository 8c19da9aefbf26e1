"""What the admin API answers with: JSON, and problem documents (RFC 9457) for everything that is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from keel.refusal import Refusal, Retry, Stop
from keel.telemetry import logs
from onbe.grants.refusals import malformed_request
from onbe.wire import refusals

PROBLEM = "application/problem+json"
WHY = {
    400: "The request is malformed.",
    401: "The bearer key is missing or wrong.",
    404: "There is no such thing.",
    408: "The body took too long to come.",
    409: "What is there stands against it.",
    413: "The body is over 64 KiB.",
    415: "The body's media type is not taken.",
    422: "Members are wrong; `errors` tells every one.",
    429: "Too many requests.",
    500: "The server failed; its log tells why.",
    503: "Not now, or not configured; nothing was done.",
}
ALWAYS = (400, 401, 408, 413, 429, 500, 503)
"""What any request may be answered with."""


def answer(document: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer, which nobody caches."""
    return Response(
        json.dumps(document, ensure_ascii=False),
        status,
        {"Cache-Control": "no-store", **(headers or {})},
        "application/json",
    )


def refused(refusal: Refusal) -> Response:
    """A refusal as its problem document."""
    status, headers, document = refusals.problem(refusal)
    return Response(json.dumps(document, ensure_ascii=False), status, headers, PROBLEM)


def malformed(problems: str) -> Refusal:
    """A request that could not be read. `problems` is the sentence without its full stop, and repeats nothing."""
    return malformed_request(Stop(), problems=problems)


def failed() -> Response:
    """The answer to a request at which we failed."""
    return refused(refusals.internal_error(Stop(), request=logs.request_id() or "the hour of this answer"))


def database_away() -> Response:
    """The answer while the database does not."""
    return refused(refusals.database_away(Retry(5)))


def instant(at: datetime) -> str:
    """An instant as RFC 3339 has it, in UTC."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem answers, for an operation's `responses` in the OpenAPI document."""
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": WHY[status], "content": content} for status in statuses}


def gives(schema: str, description: str, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """An answer of one of `schemas`, for the same place."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {status: {"description": description, "content": content}}
