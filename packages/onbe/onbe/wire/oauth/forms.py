"""A form of OAuth, read strictly: bounded, each parameter at most once, an empty one left out (RFC 6749, 3.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from keel.refusal import Refusal, Stop
from onbe.grants.refusals import malformed_request
from onbe.names import BODY_BYTES
from onbe.wire.refusals import too_large

MOST_PARAMETERS = 64
CONTENT_TYPE = "application/x-www-form-urlencoded"
ENCODED = re.compile(rb"(?:[!-$&-~]|%[0-9A-Fa-f]{2})*")
"""What a browser or a library sends: nothing but printable ASCII, and whole percent signs."""


async def read_form(request: Request) -> Mapping[str, str] | Refusal:
    """The parameters by name. Values of parameters that nobody knows are read like the others, and then ignored."""
    kinds = request.headers.getlist("content-type")
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != CONTENT_TYPE:
        return malformed(f"Content-Type should be {CONTENT_TYPE}")
    if request.url.query:
        return malformed("Parameters belong into the body, and none into the address")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES:
            return too_large(Stop(), most=BODY_BYTES)
    return parse_form(bytes(body))


def parse_form(body: bytes) -> Mapping[str, str] | Refusal:
    """The parameters of a body of this type."""
    pieces = [piece for piece in body.split(b"&") if piece]
    if len(pieces) > MOST_PARAMETERS:
        return malformed(f"More than {MOST_PARAMETERS} parameters were sent")
    found: dict[str, str] = {}
    for piece in pieces:
        if not ENCODED.fullmatch(piece):
            return malformed("The body is not a form")
        name, _, value = piece.partition(b"=")
        try:
            key, text = (unquote_to_bytes(part.replace(b"+", b" ")).decode() for part in (name, value))
        except UnicodeDecodeError:
            return malformed("The body is not UTF-8")
        if "\0" in key or "\0" in text:
            return malformed("A parameter has a NUL in it")
        if key in found:
            return malformed("A parameter was sent twice")
        found[key] = text
    return {key: text for key, text in found.items() if text}


def malformed(problems: str) -> Refusal:
    """A request that is no request. `problems` repeats nothing of it."""
    return malformed_request(Stop(), problems=problems)
