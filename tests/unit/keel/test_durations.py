"""Durations of ISO 8601: what is read is told again, and nothing that is written breaks the reader."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel import durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT30M", 1800),
        ("P1D", 86400),
        ("P2W", 1209600),
        ("P1DT1H1M1S", 90061),
        ("PT0.5S", 0.5),
        ("PT0S", 0),
        ("P0D", 0),
    ],
)
def test_a_duration_is_read_as_it_is_spelled(text: str, seconds: float) -> None:
    assert durations.read(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "PTM", "30M", "pt30m", "P1Y", "P1M", "P1W1D", "PT1S1M", "-PT1S", "PT-1S", " PT1S", "PT1S\n",
     "PT1,5S", "PT.5S", "PT1e3S", "P999999999W", "P999999999DT999999999H", "P" + "9" * 5000 + "D", "PT\u0661M"],
)  # fmt: skip
def test_what_is_no_duration_or_longer_than_can_be_counted_is_none(text: str) -> None:
    assert durations.read(text) is None


@given(st.integers(min_value=0, max_value=10**9))
def test_whole_seconds_are_told_as_they_are_read(seconds: int) -> None:
    assert durations.read(durations.told(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@given(st.text(alphabet="PTWDHMS0123456789.", max_size=40))
def test_anything_is_read_or_is_none(text: str) -> None:
    found = durations.read(text)
    assert found is None or found >= timedelta(0)
