"""What a client is answered: JSON that nobody keeps, and the error codes that the RFCs have for our refusals."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from keel.refusal import Refusal, Retry
from rift.secrecy import without_secrets

ANYBODY = {"Access-Control-Allow-Origin": "*"}
"""Clients that run in a browser ask from pages of their own; nothing here looks at a cookie."""
PREFLIGHT = {
    **ANYBODY,
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
    "Access-Control-Max-Age": "86400",
}
NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}

ERRORS: Mapping[str, tuple[str, int]] = {
    "unknown_client": ("invalid_client", 401),
    "client_unreadable": ("invalid_client", 401),
    "clients_full": ("temporarily_unavailable", 503),
    "too_often": ("temporarily_unavailable", 429),
}
"""The error code and the status of a refusal, where they are not the refusal's own code and 400."""


def answer(document: Mapping[str, Any], status: int = 200) -> Response:
    """A document with secrets in it, which is kept nowhere on its way."""
    return JSONResponse(dict(document), status, {**ANYBODY, **NOT_KEPT})


def error(refusal: Refusal) -> Response:
    """A refusal as RFC 6749, 5.2 has it."""
    code, status = error_code(refusal)
    response = answer({"error": code, "error_description": description(refusal)}, status)
    for mend in refusal.mends:
        if isinstance(mend, Retry) and status in (429, 503):
            response.headers["Retry-After"] = str(math.ceil(mend.after))
    return response


def away() -> Response:
    """The database is away, or too busy: a client that asks again loses nothing, a refresh token neither."""
    told = {"error": "temporarily_unavailable", "error_description": "Rift cannot do this now; try again in seconds."}
    response = answer(told, 503)
    response.headers["Retry-After"] = "5"
    return response


def error_code(refusal: Refusal) -> tuple[str, int]:
    """The error code of OAuth's that stands for a refusal, and its HTTP status."""
    return ERRORS.get(refusal.code, (refusal.code, 400))


def description(refusal: Refusal) -> str:
    """The sentence in the characters that an `error_description` may have (RFC 6749, 5.2)."""
    return re.sub(r"[^ !#-\[\]-~]", "'", without_secrets(refusal.sentence))
