"""Log lines on a disk that has no room for them."""

from __future__ import annotations

import errno
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from keel.telemetry import logs


class Full(io.StringIO):
    """A file on a disk that is full for a while."""

    full = False

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize("kind", ["ours", "a library's"])
def test_a_line_that_cannot_be_written_is_lost_and_counted_and_the_work_goes_on(kind: str) -> None:
    stream = Full()
    logs.configure("json", "info", stream=stream)
    say = structlog.get_logger().info if kind == "ours" else logging.getLogger("library").info
    say("one")
    stream.full = True
    say("two")
    say("three")
    stream.full = False
    say("four")
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in told] == ["one", "logs.lost", "four"]
    assert told[1]["lines"] == 2
