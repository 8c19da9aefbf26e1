"""Log lines: one form for all, one line each, and what never gets into one."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from keel.ids import SystemIds
from keel.telemetry import logs
from rift.secrecy import for_logs

HANDLE = "task_abcdefgh.c2VjcmV0LXNlY3JldC1zZWNyZXQ"
BEARER = "rift_" + "x" * 43
AGENT = SystemIds().token()
HALF = "\ud800"
"""Half a character. Told to our own logger alone: of the others' lines pytest keeps a copy, which it cannot send on."""
HOSTILE = "a\r\n2026-01-01T00:00:00Z [error    ] faked\x1b[2J\x9b31m\u2028\u202e\x00b"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """Where the lines go; afterwards everything is as it was."""
    root, before = logging.getLogger(), (logging.getLogger().handlers[:], logging.getLogger().level)
    kept = structlog.get_config()
    yield io.StringIO()
    structlog.configure(**kept)
    root.handlers[:], root.level = before[0], before[1]
    logging.getLogger().setLevel(before[1])


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_lines_of_ours_and_of_libraries_have_one_form_and_the_request_they_belong_to(out: io.StringIO) -> None:
    logs.configure("auto", "info", for_logs, out)
    with logs.about(request="r-1", job_id=7):
        structlog.get_logger().info("ours", box="b-1")
        for name in ("uvicorn.error", "procrastinate.worker", "asyncio"):
            logging.getLogger(name).warning("theirs %s", name)
    told = lines(out)
    assert [one["event"] for one in told] == ["ours", *(f"theirs {one['logger']}" for one in told[1:])]
    assert [one.get("logger") for one in told] == [None, "uvicorn.error", "procrastinate.worker", "asyncio"]
    for one in told:
        assert (one["request"], one["job_id"]) == ("r-1", 7)
        assert one["timestamp"]
        assert one["level"] in ("info", "warning")


@pytest.mark.parametrize("form", ["console", "json"])
def test_no_text_writes_a_line_of_its_own_or_moves_the_terminal(form: logs.Format, out: io.StringIO) -> None:
    logs.configure(form, "debug", for_logs, out)
    log = structlog.get_logger()
    log.info(HOSTILE + HALF, name=HOSTILE + HALF, deep={HOSTILE: [HOSTILE, (HOSTILE,)]}, **{HOSTILE: 1})
    logging.getLogger("lib").warning("%s", HOSTILE)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        log.exception("failed")
        logging.getLogger("lib").exception(HOSTILE)
    log.error("failed", trace=f"Traceback\n{HOSTILE}")
    told = out.getvalue()
    assert not [character for character in told if not character.isprintable() and character != "\n"]
    assert not [line for line in told.splitlines() if line.startswith("2026-01-01")]
    if form == "json":
        assert len(lines(out)) == 5


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    ("secret", "text"),
    [
        (HANDLE, HANDLE),
        (BEARER, f"token {BEARER}."),
        (AGENT, f"token={AGENT}"),
        ("hunter2", "connection to postgresql://rift:hunter2@db/rift failed"),
        ("ter2", "connection to postgresql://rift:hun@ter2@db/rift failed"),
        ("hunter2", "user=rift password=hunter2 host=db"),
        ("c2VjcmV0", "Authorization: Basic c2VjcmV0"),
        ("c2Vj.cmV0", "authorization: bearer c2Vj.cmV0"),
        ("echo hunter2", "DETAIL:  Failing row contains (b-1, 1, bash, echo hunter2, null)."),
        ("hunter2", "DETAIL:  Key (name)=(hunter2) already exists."),
    ],
    ids=["handle", "token", "agent", "url", "url with @", "words", "basic", "bearer", "row", "key"],
)
def test_a_secret_is_left_out_wherever_it_stands(form: logs.Format, secret: str, text: str, out: io.StringIO) -> None:
    logs.configure(form, "debug", for_logs, out)
    log = structlog.get_logger()
    log.info(text, name=text, deep=[{"in": text}], error=RuntimeError(text))
    logging.getLogger("lib").error("it said %s", text)
    try:
        raise RuntimeError(text) from ValueError(text)
    except RuntimeError:
        log.exception("failed")
    log.error("failed", trace=text)
    assert secret not in out.getvalue()
    assert out.getvalue().count("RuntimeError") >= 1


def test_libraries_are_silent_where_they_would_debug(out: io.StringIO) -> None:
    logs.configure("json", "debug", for_logs, out)
    structlog.get_logger().debug("ours")
    logging.getLogger("httpcore").debug("a header: %s", "secret")
    assert [one["event"] for one in lines(out)] == ["ours"]


def test_the_level_holds_for_everybody_and_the_last_setting_counts(out: io.StringIO) -> None:
    logs.configure("json", "debug", for_logs, io.StringIO())
    logs.configure("json", "error", for_logs, out)
    structlog.get_logger().warning("ours")
    logging.getLogger("lib").warning("theirs")
    structlog.get_logger().error("worse")
    assert [one["event"] for one in lines(out)] == ["worse"]


def test_a_line_has_a_most_whatever_is_put_into_it(out: io.StringIO) -> None:
    logs.configure("json", "info", for_logs, out)
    structlog.get_logger().info("x" * 1_000_000, trace="y\n" * 1_000_000)
    assert len(out.getvalue()) < 2 * (logs.VALUE_CHARACTERS + logs.TRACE_CHARACTERS * 4)


def test_a_traceback_shows_no_values_and_an_absent_database_is_one_line(out: io.StringIO) -> None:
    class PoolTimeout(Exception):
        pass

    logs.configure("json", "info", for_logs, out)
    inside = "a value of a variable"
    try:
        raise KeyError("outside")
    except KeyError:
        structlog.get_logger().exception("failed")
    try:
        raise RuntimeError("whatever") from PoolTimeout("couldn't get a connection\nmore")
    except RuntimeError:
        structlog.get_logger().exception("failed")
    first, second = lines(out)
    assert inside not in first["exception"]
    assert "KeyError: 'outside'" in first["exception"]
    assert second["exception"] == "the database is away: couldn't get a connection"
