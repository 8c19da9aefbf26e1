"""Traces: what a call did, as spans. A facade that costs nothing until `start` was called.

Only facts on a closed list become attributes, so no text of a command, path, output or token can. A span begins under
the one that is current in its task; where there is none nothing is traced, but for `root=True`.
Source: W3C Trace Context (traceparent); OpenTelemetry's semantic conventions for the names of attributes.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
Fact = str | int | float | bool
Kind = Literal["internal", "server", "consumer", "producer"]

ATTRIBUTES: Mapping[str, str] = {
    "box": "rift.box",
    "command": "rift.command",
    "command_kind": "rift.command.kind",
    "error": "error.type",
    "exit": "rift.command.exit",
    "incarnation": "rift.incarnation",
    "job": "rift.job",
    "method": "http.request.method",
    "outcome": "rift.outcome",
    "reason": "onbe.reason",
    "request": "rift.request",
    "route": "http.route",
    "status": "http.response.status_code",
    "tool": "rift.tool",
    "warm": "rift.box.warm",
}
"""The facts that a span may carry, and their names on the wire."""
VALUE_CHARACTERS = 128
HEADER_CHARACTERS = 512
"""A longer traceparent is none, whatever a later version of it may hold."""

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a trace: the trace's id and the span's, as whole numbers above 0, and whether it is recorded."""

    trace: int
    span: int
    sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace:032x}-{self.span:016x}-{int(self.sampled):02x}"


def parse(text: object) -> Place | None:
    """The place that a `traceparent` names; None for whatever is not one."""
    if not isinstance(text, str) or len(text) > HEADER_CHARACTERS:
        return None
    found = _TRACEPARENT.fullmatch(text.strip(" \t"))
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    place = Place(int(found[2], 16), int(found[3], 16), bool(int(found[4], 16) & 1))
    return place if place.trace and place.span else None


class Begun(Protocol):
    """A span that has begun, as what records it has it."""

    @property
    def place(self) -> Place: ...

    def set(self, facts: Mapping[str, Fact]) -> None:
        """Attributes, by their names on the wire."""

    def end(self, at: datetime | None, error: str | None) -> None:
        """It is over, now or at an instant; `error` is the word for what it died of."""


class Recorder(Protocol):
    """What records spans and sends them somewhere. Nothing in it may block or raise."""

    def begin(self, service: str, name: str, kind: Kind, parent: Place | None, since: datetime | None) -> Begun:
        """A span of a service ("" is this one), under a parent or at the root of a trace, from now or an instant on."""

    def close(self, seconds: float) -> None:
        """Send what there is, for so long at most."""


class Span:
    """A span as the code that does the work sees it; one that nobody records takes everything and does nothing."""

    __slots__ = ("_begun",)

    def __init__(self, begun: Begun | None = None) -> None:
        self._begun = begun

    def say(self, **facts: Fact) -> None:
        """Add facts of `ATTRIBUTES`. Raises KeyError for another."""
        if self._begun is not None:
            self._begun.set(_named(facts))

    def end(self, at: datetime | None = None, error: str | None = None) -> None:
        """End it; `span` does by itself."""
        if self._begun is not None:
            self._begun.end(at, error)

    @property
    def place(self) -> Place | None:
        """Where it stands; None when nobody records."""
        return self._begun.place if self._begun is not None else None


class _Nothing(AbstractContextManager[Span]):
    """The block of a span that nobody records."""

    def __enter__(self) -> Span:
        return _NOBODY

    def __exit__(self, *raised: object) -> None:
        return None


_NOBODY = Span()
_NOTHING = _Nothing()
_current: ContextVar[Place | None] = ContextVar("keel_span", default=None)
_recorder: Recorder | None = None


def start(recorder: Recorder) -> None:
    """Record from now on, in the whole process."""
    global _recorder
    _recorder = recorder


def stop(seconds: float = 2.0) -> None:
    """Record no more; what was recorded has so many seconds to be sent."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        recorder.close(seconds)


def on() -> bool:
    """Whether anything is recorded."""
    return _recorder is not None


def here() -> str | None:
    """The current span as a `traceparent`, to be stored with work that is done later; None where there is none."""
    place = _current.get() if _recorder is not None else None
    return str(place) if place else None


def span(
    name: str,
    *,
    kind: Kind = "internal",
    parent: Place | None = None,
    root: bool = False,
    since: datetime | None = None,
    **facts: Fact,
) -> AbstractContextManager[Span]:
    """A span for the length of the block: under `parent`, else the current one, else only with `root`."""
    if _recorder is None:
        return _NOTHING
    above = parent or _current.get()
    return _spanning(_recorder, name, kind, above, since, facts) if above or root else _NOTHING


def spanned(name: str) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Let each run of an async function be a span under the current one."""

    def wrap(run: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(run)
        async def traced(*args: P.args, **kwargs: P.kwargs) -> R:
            with span(name):
                return await run(*args, **kwargs)

        return traced

    return wrap


def past(
    service: str, name: str, parent: Place | None, since: datetime, until: datetime, **facts: Fact
) -> Place | None:
    """Record what another service did, on its behalf, from one instant to another. Its place, for its children."""
    if _recorder is None or parent is None:
        return None
    begun = _recorder.begin(service, name, "internal", parent, since)
    begun.set(_named(facts))
    begun.end(until, None)
    return begun.place


def begin(name: str, kind: Kind, parent: Place | None, since: datetime, **facts: Fact) -> Span:
    """A span that the caller ends, under a place or at the root of a trace; it becomes nobody's current one."""
    if _recorder is None:
        return _NOBODY
    begun = _recorder.begin("", name, kind, parent, since)
    begun.set(_named(facts))
    return Span(begun)


@contextmanager
def _spanning(
    recorder: Recorder, name: str, kind: Kind, parent: Place | None, since: datetime | None, facts: Mapping[str, Fact]
) -> Iterator[Span]:
    begun = recorder.begin("", name, kind, parent, since)
    begun.set(_named(facts))
    mark = _current.set(begun.place)
    error: str | None = None
    try:
        yield Span(begun)
    except (asyncio.CancelledError, GeneratorExit):
        begun.set({ATTRIBUTES["outcome"]: "cancelled"})
        raise
    except BaseException as raised:
        error = type(raised).__name__  # never its text, which may hold anything
        raise
    finally:
        _current.reset(mark)
        begun.end(None, error)


def _named(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {ATTRIBUTES[name]: value[:VALUE_CHARACTERS] if isinstance(value, str) else value
            for name, value in facts.items()}  # fmt: skip
