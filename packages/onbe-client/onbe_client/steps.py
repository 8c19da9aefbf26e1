"""What a flow asks its driver to do, and what comes back: plain values, so that the flows do no I/O of their own.

A flow is a generator: it yields steps, is sent `Answer`s (or has `Unreachable`, `BadAnswer` thrown in), and returns
its result. `http.py` has the two drivers, async and blocking.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from onbe_client.errors import BadAnswer

T = TypeVar("T")

BODY_BYTES = 256 * 1024
"""The most of an answer that is read."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: a GET, or a POST of `form`. `within`: seconds, from the connection to the last byte."""

    url: str
    within: float
    form: Mapping[str, str] | None = field(default=None, repr=False)
    bearer: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Wait:
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came: header names in lower case, the body whole and bounded."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)

    def document(self) -> dict[str, Any]:
        """The JSON object in the body; raises BadAnswer for anything else."""
        try:
            parsed = json.loads(self.body, parse_constant=_no_number)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise BadAnswer("bad_answer", f"A {self.status} without a JSON object in it.", status=self.status)
        return parsed

    @property
    def date(self) -> float | None:
        """Seconds since 1970 by the server's `Date`."""
        try:
            at = parsedate_to_datetime(self.headers["date"])
        except (KeyError, ValueError, TypeError, IndexError, OverflowError):
            return None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()

    @property
    def retry_after(self) -> float | None:
        """Seconds, from `Retry-After` as a number or (against the server's own `Date`) as a date; never below 0."""
        said = self.headers.get("retry-after", "").strip()
        if said.isascii() and said.isdigit():
            return float(said[:9])
        try:
            at: datetime = parsedate_to_datetime(said)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        if self.date is None:
            return None
        return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - self.date)


def _no_number(name: str) -> float:
    raise ValueError(name)


def whole(value: object, least: float, most: float) -> float | None:
    """A number of JSON within bounds; None for anything else, true and false among it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if least <= value <= most else None  # before it is made a float, which not every int can be


Step = Ask | Wait
Flow = Generator[Step, Any, T]
