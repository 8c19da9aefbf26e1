"""How often each of many may do something."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from keel.buckets import Buckets, Rate, take

RATES = st.builds(Rate, st.integers(1, 5000), st.floats(0.1, 3600))
GAPS = st.lists(st.floats(0, 100), max_size=200)


@given(RATES, GAPS)
def test_within_any_length_of_time_no_more_is_taken_than_the_bucket_holds_and_gains(
    rate: Rate, gaps: list[float]
) -> None:
    now, full_at, taken = 1000.0, 0.0, []
    for gap in gaps:
        now += gap
        full_at, wait = take(full_at, now, rate)
        if not wait:
            taken.append(now)
    for n, since in enumerate(taken):
        for m in range(n, len(taken)):
            assert m - n + 1 <= rate.most + (taken[m] - since) / rate.each + 1e-3


@given(RATES, GAPS)
def test_who_waits_as_long_as_they_are_told_takes_one_and_no_sooner(rate: Rate, gaps: list[float]) -> None:
    now, full_at = 1000.0, 0.0
    for gap in gaps:
        now += gap
        before = full_at
        full_at, wait = take(full_at, now, rate)
        if wait:
            assert full_at == before, "who has to wait took nothing"
            assert wait <= rate.each * (1 + 1e-6)
            assert take(full_at, now + wait, rate)[1] == 0
            if wait > rate.each * 1e-3:
                assert take(full_at, now + wait * 0.99, rate)[1] > 0


@given(RATES)
def test_a_full_bucket_gives_all_of_it_at_once_and_not_one_more(rate: Rate) -> None:
    buckets = Buckets(rate)
    assert not any(buckets.take("one", 5.0) for _ in range(rate.most))
    assert buckets.take("one", 5.0) > 0
    assert buckets.take("another", 5.0) == 0


@given(st.integers(1, 50), st.integers(0, 500))
def test_the_table_never_grows_beyond_its_bound_and_forgets_the_longest_unused(size: int, keys: int) -> None:
    buckets = Buckets(Rate(1, 3600), size)
    for key in range(keys):
        assert buckets.take(str(key), 0.0) == 0
        assert len(buckets) <= size
    if keys:
        assert buckets.take(str(keys - 1), 0.0) > 0, "the last one is remembered"
