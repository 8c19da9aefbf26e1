"""A request's JSON body, read strictly: no member twice, no number without end, nothing nested without end."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.requests import Request

from keel.refusal import Refusal, Stop
from onbe.directory.decide import shown
from onbe.wire.admin.answers import malformed
from onbe.wire.refusals import media_type_unknown

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
DEPTH = 16


class _Unread(ValueError):
    """Says what is wrong with a text, in words that repeat none of its values."""


async def json_of(request: Request, *types: str) -> object | Refusal:
    """The value that a body of one of these media types holds, or why it cannot be read."""
    if not _is_of(request, types):
        return media_type_unknown(Stop(), supported=" or ".join(types))
    try:
        return parse(await request.body())
    except _Unread as error:
        return malformed(str(error))


def parse(data: bytes) -> object:
    """The JSON value that bytes are. Raises ValueError, whose text says why they are none."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=_once, parse_float=_finite, parse_constant=_constant)
    except _Unread:
        raise
    except json.JSONDecodeError as error:
        raise _Unread(f"The body is not JSON at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError:
        raise _Unread("The body is not UTF-8") from None
    except RecursionError:
        raise _Unread(f"The body nests deeper than {DEPTH}") from None
    except ValueError:  # an integer of thousands of digits
        raise _Unread("A number in the body is too large") from None
    if _deeper(value, DEPTH):
        raise _Unread(f"The body nests deeper than {DEPTH}")
    return value


def _is_of(request: Request, types: tuple[str, ...]) -> bool:
    sent = request.headers.getlist("content-type")
    if len(sent) != 1 or request.headers.get("content-encoding", "identity").lower() != "identity":
        return False
    kind, *parameters = (part.strip().lower() for part in sent[0].split(";"))
    return kind in types and all(part in ("charset=utf-8", 'charset="utf-8"', "") for part in parameters)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _Unread(f"The member {shown(name)} is there twice")
        members[name] = value
    return members


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unread("A number in the body is too large")
    return value


def _constant(text: str) -> Any:
    raise _Unread("The body has NaN or Infinity, which are not JSON")


def _deeper(value: object, most: int) -> bool:
    """Whether a value nests deeper than `most`; looked at level by level, without recursion."""
    level = [value]
    for _ in range(most + 1):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
