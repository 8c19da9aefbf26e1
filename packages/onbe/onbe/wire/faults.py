"""The answer to a request at which we failed: an OAuth error with the id under which the log tells why."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from keel.refusal import Stop
from onbe.wire.refusals import internal_error, oauth_error


def fault(request: str | None) -> Response:
    """`server_error`, and nothing of what happened."""
    status, headers, body = oauth_error(internal_error(Stop(), request=request or "no id"))
    return JSONResponse(body, status, headers)
