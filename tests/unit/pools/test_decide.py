"""How a pool comes to what is wanted: never more than is missing, and nothing of an old head stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.names import HEAD_RESTS, POOL_RESTS_MOST
from rift.pools.decide import decide_fill
from rift.pools.model import Fill, Wanted, WarmBox

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
HEAD, OLD = "a" * 40, "b" * 40


def warm(id: str, state: str = "running", commit: str = HEAD, age: int = 0) -> WarmBox:
    return WarmBox(id, commit, state, NOW - timedelta(minutes=age))


@pytest.mark.parametrize(
    ("wanted", "boxes", "step"),
    [
        (Wanted(2, HEAD), [], Fill(2, ())),
        (Wanted(2, HEAD), [warm("x")], Fill(1, ())),
        (Wanted(2, HEAD), [warm("x"), warm("y", "starting")], Fill(0, ())),
        (Wanted(0, HEAD), [], Fill(0, ())),
        (Wanted(0, HEAD), [warm("x")], Fill(0, ("x",))),
        (Wanted(1, HEAD), [warm("x", commit=OLD)], Fill(1, ("x",))),
        (Wanted(1, HEAD), [warm("x", commit=OLD), warm("y")], Fill(0, ("x",))),
        (None, [warm("x"), warm("y", commit=OLD)], Fill(0, ("x", "y"))),
        (None, [], Fill(0, ())),
        (Wanted(3, None), [warm("x")], Fill(0, ("x",))),
        # what is too many goes: those that still start before those that run, the youngest first
        (Wanted(1, HEAD), [warm("x", "starting", age=9), warm("y", age=1)], Fill(0, ("x",))),
        (Wanted(1, HEAD), [warm("young", age=1), warm("old", age=9)], Fill(0, ("young",))),
    ],
)
def test_a_pool_makes_what_is_missing_and_drains_what_is_not_wanted(
    wanted: Wanted | None, boxes: list[WarmBox], step: Fill
) -> None:
    assert decide_fill(wanted, boxes, NOW) == step


@pytest.mark.parametrize(("ago", "made"), [(timedelta(0), 0), (HEAD_RESTS - timedelta(seconds=1), 0), (HEAD_RESTS, 2)])
def test_a_head_whose_box_failed_rests_for_a_minute(ago: timedelta, made: int) -> None:
    assert decide_fill(Wanted(2, HEAD, NOW - ago), [warm("old", commit=OLD)], NOW) == Fill(made, ("old",))


@pytest.mark.parametrize(
    ("failing", "rest"),
    [
        (timedelta(0), HEAD_RESTS),
        (timedelta(seconds=61), timedelta(seconds=61)),
        (timedelta(minutes=9), timedelta(minutes=9)),
        (timedelta(days=9), POOL_RESTS_MOST),
    ],
)
def test_a_head_whose_boxes_fail_again_and_again_rests_longer_each_time(failing: timedelta, rest: timedelta) -> None:
    for ago, made in ((rest - timedelta(seconds=1), 0), (rest, 2)):
        failed_at = NOW - ago
        wanted = Wanted(2, HEAD, failed_at, failing_since=failed_at - failing)
        assert decide_fill(wanted, [], NOW) == Fill(made, ())


boxes = st.lists(
    st.builds(
        WarmBox,
        id=st.uuids().map(str),
        commit=st.sampled_from([HEAD, OLD]),
        state=st.sampled_from(["running", "starting"]),
        created_at=st.integers(0, 99).map(lambda minutes: NOW - timedelta(minutes=minutes)),
    ),
    max_size=8,
    unique_by=lambda box: box.id,
)


@given(st.none() | st.builds(Wanted, st.integers(0, 5), st.none() | st.just(HEAD)), boxes)
def test_one_step_brings_a_pool_to_what_is_wanted(wanted: Wanted | None, boxes: list[WarmBox]) -> None:
    step = decide_fill(wanted, boxes, NOW)
    left = [box for box in boxes if box.id not in step.drain]
    want = wanted.warm if wanted and wanted.head else 0
    assert len(step.drain) == len(set(step.drain))
    assert all(box.commit == HEAD for box in left)
    assert len(left) + step.make == want
    assert not (step.make and any(box.commit == HEAD for box in boxes if box.id in step.drain))
    running = [box for box in boxes if box.commit == HEAD and box.state == "running"]
    assert sum(box.state == "running" for box in left) == min(len(running), want)
