"""Instants and lengths of time, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.times import age, span, when

NOW = datetime(2026, 11, 30, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "less than a minute ago"),
        (59, "less than a minute ago"),
        (60, "1 minute ago"),
        (240, "4 minutes ago"),
        (3599, "59 minutes ago"),
        (3600, "1 hour ago"),
        (7300, "2 hours ago"),
        (86_400, "1 day ago"),
        (3 * 86_400, "3 days ago"),
    ],
)
def test_an_age_is_said_in_its_largest_unit(seconds: int, said: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == said


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=4000)))
def test_an_age_is_always_a_short_phrase(since: timedelta) -> None:
    assert age(NOW - since, NOW).endswith(" ago")


def test_an_instant_stands_with_its_age() -> None:
    assert when(NOW - timedelta(minutes=4), NOW) == "2026-11-30T14:56:00Z (4 minutes ago)"


@pytest.mark.parametrize(
    ("length", "said"),
    [(14_400, "4 hours"), (3600, "1 hour"), (5400, "90 minutes"), (2, "2 seconds"), (0, "0 seconds")],
)
def test_a_span_is_said_in_a_unit_that_fits(length: int, said: str) -> None:
    assert span(timedelta(seconds=length)) == said
