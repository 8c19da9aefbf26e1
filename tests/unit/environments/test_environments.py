"""What is to be done with environments, decided from plain values."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.environments.decide import cut, decide_kept, decide_next, decide_want
from rift.environments.model import (
    LOG_HEAD,
    LOG_TAIL,
    Environment,
    Open,
    State,
)
from rift.names import HEAD_RESTS

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FAILED = Environment(
    "env_1", "repo_1", "a" * 40, "failed", 3, None, "", 1, None, "", "no such luck", True, NOW, NOW, NOW
)  # fmt: skip


def open_one(id: str, *, age: int = 0, until: datetime | None = None, needed: bool = True) -> Open:
    state: State = "building" if until else "waiting"
    return Open(id, id * 40, state, "", until, NOW - timedelta(minutes=age), needed)


@pytest.mark.parametrize(
    ("found", "asked_at", "later", "again"),
    [
        (FAILED, None, timedelta(days=9), False),
        (FAILED, NOW, timedelta(days=9), False),
        (FAILED, NOW + SECOND, SECOND, True),
        (replace(FAILED, stays=False), None, HEAD_RESTS - SECOND, False),
        (replace(FAILED, stays=False), None, HEAD_RESTS, True),
        (replace(FAILED, state="cancelled"), None, SECOND, True),
        *((replace(FAILED, state=state), NOW + SECOND, SECOND, False) for state in ("waiting", "building", "ready")),
    ],
)
def test_what_would_fail_again_is_built_when_somebody_asks_and_the_rest_after_a_minute(
    found: Environment, asked_at: datetime | None, later: timedelta, again: bool
) -> None:
    assert decide_want(found, asked_at, NOW + later) is again


@pytest.mark.parametrize(
    ("open", "build", "cancel"),
    [
        ([], None, ()),
        ([open_one("a", age=2), open_one("b", age=1), open_one("c", age=3)], "b", ()),
        ([open_one("a"), open_one("b", age=1, needed=False)], "a", ("b",)),
        ([open_one("a"), open_one("b", until=NOW + SECOND)], None, ()),
        ([open_one("a"), open_one("b", until=NOW + SECOND, needed=False)], None, ()),  # its builder sees that itself
        ([open_one("a", age=1), open_one("b", until=NOW - SECOND)], "b", ()),  # of a builder that is gone
        ([open_one("b", until=NOW - SECOND, needed=False)], None, ("b",)),
    ],
)
def test_the_newest_that_somebody_waits_for_is_built_one_at_a_time(
    open: list[Open], build: str | None, cancel: tuple[str, ...]
) -> None:
    step = decide_next(open, NOW)
    assert (step.build.id if step.build else None, step.cancel) == (build, cancel)


def test_of_a_long_log_the_middle_goes() -> None:
    whole = LOG_HEAD + LOG_TAIL
    assert decide_kept(whole) is None
    assert decide_kept(whole + 5) == (LOG_HEAD, LOG_HEAD + 5)


@given(st.text(max_size=300), st.integers(20, 100))
def test_a_long_text_is_cut_in_its_middle_between_characters_and_says_so(text: str, most: int) -> None:
    short = cut(text, most)
    if len(text.encode()) <= most:
        assert short == text
    else:
        head, _, tail = short.partition("\n[… ")
        assert text.startswith(head)
        assert text.endswith(tail.partition(" bytes left out …]\n")[2])
        assert len(short.encode()) <= most + 60
