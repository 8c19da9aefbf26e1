"""Log lines: one form for ours and for the libraries', one line each, and nothing secret in them.

On a terminal a line is for a person, elsewhere it is a JSON object. Whatever a line says passes `plain`, which takes
out secrets and control characters: a name with a line break in it cannot write a line of its own.
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.contextvars import bound_contextvars

Format = Literal["auto", "console", "json"]
Level = Literal["debug", "info", "warning", "error"]
Scrub = Callable[[str], str]

VALUE_CHARACTERS = 2000
TRACE_CHARACTERS = 20_000
DEPTH = 4
"""How deep a value that is made of others is followed."""
LEVELS: Mapping[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
"""What moves a cursor, ends a line, turns writing round, hides, or cannot be written."""
_MANY_LINES = frozenset({"exception", "stack", "trace"})
_DATABASE_AWAY = frozenset(
    {"OperationalError", "AdminShutdown", "CrashShutdown", "PoolTimeout", "Busy", "ConnectorException"}
)
"""By name, as importing their modules would slow every --help."""


class Unfailing(io.TextIOBase):
    """A stream whose lines are lost while it takes none (a full disk, a reader that is gone), and nothing else is.

    Whoever writes a line has work to do that must not end half-way for want of it. How many were lost is written once
    lines are taken again.
    """

    def __init__(self, within: TextIO | None = None) -> None:
        self._given = within
        self._begun = ""
        self._lost = 0

    @property
    def _within(self) -> TextIO:
        """What was given, else the process's stderr of this moment: one that was put in its place may be gone again."""
        return sys.stderr if self._given is None else self._given

    def write(self, text: str) -> int:
        """Write it, once it is a whole line."""
        self._begun += text
        if self._begun.endswith("\n"):
            whole, self._begun = self._begun, ""
            self._put(whole)
        return len(text)

    def _put(self, lines: str) -> None:
        try:
            if self._lost:
                told = {"event": "logs.lost", "lines": self._lost, "level": "warning"}
                self._within.write(json.dumps(told) + "\n")
                self._within.flush()
                self._lost = 0
            self._within.write(lines)
            self._within.flush()
        except OSError:
            self._lost += lines.count("\n")

    def flush(self) -> None:
        """It is flushed with each write."""

    def isatty(self) -> bool:
        """As the stream within."""
        return self._within.isatty()


def configure(form: Format, level: Level, scrub: Scrub = str, stream: TextIO | None = None) -> None:
    """Let every logger of the process write to `stream` (stderr), in one form, from `level` on. The last call counts.

    `scrub` takes secrets out of a text. Libraries write from `info` on at most: what they say when debugged holds
    bodies and headers.
    """
    people = form == "console" or (form == "auto" and (stream or sys.stderr).isatty())
    out = cast("TextIO", Unfailing(stream))
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.ExceptionRenderer(_exception),
        Plain(scrub),
    ]
    renderer: Any = _console(out) if people else structlog.processors.JSONRenderer(_dumps)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        processors=[*shared, renderer],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            keep_exc_info=False,
        )
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, structlog.stdlib.ProcessorFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(LEVELS[level], logging.INFO))


@contextmanager
def about(**facts: str | int) -> Iterator[None]:
    """Have these facts (as `request`) in every line of this task, and of tasks that it begins, for the block."""
    with bound_contextvars(**facts):
        yield


def request_id() -> str:
    """The id of the request that this task works for; "" where there is none."""
    return str(structlog.contextvars.get_contextvars().get("request", ""))


class Plain:
    """The processor that lets nothing secret and nothing that is not text into a line."""

    def __init__(self, scrub: Scrub) -> None:
        self._scrub = scrub

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in list(event.items()):
            if name in ("_record", "_from_structlog"):  # structlog's own, which its formatter takes out
                continue
            del event[name]
            if name in _MANY_LINES and isinstance(value, str):
                lines = self._scrub(value)[-TRACE_CHARACTERS:].split("\n")
                event["stack" if name == "stack" else "exception"] = "\n    ".join(
                    _visible(line) for line in lines if line.strip()
                )
            else:
                event[self._text(str(name))] = self._value(value, DEPTH)
        return event

    def _value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping) and depth:
            return {self._text(str(name)): self._value(one, depth - 1) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset) and depth:
            return [self._value(one, depth - 1) for one in value]
        return self._text(str(value))

    def _text(self, text: str) -> str:
        plain = _visible(self._scrub(text))
        return plain if len(plain) <= VALUE_CHARACTERS else plain[:VALUE_CHARACTERS] + "…"


def _visible(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _logger_name(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["logger"] = event["_record"].name
    return event


def _exception(exc_info: Any) -> str:
    """A traceback without the values of its variables, which may be secrets. That the database is away is a line."""
    error: BaseException | None = exc_info[1]
    while error is not None:
        if type(error).__name__ in _DATABASE_AWAY:
            return f"the database is away: {str(error).strip().partition(chr(10))[0]}"
        error = error.__cause__ or error.__context__
    return logging.Formatter().formatException(exc_info)


def _dumps(event: Any, **options: Any) -> str:
    return json.dumps(event, ensure_ascii=False, default=str)


def _console(out: TextIO) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)
