"""Whether there is room for a box, which warm one gives way, and what a refusal suggests to end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.boxes.test_decide import RUNNING

from keel.refusal import YOUR_HANDLE, Call
from rift.boxes.decide import Cold, Tight, decide_cold, decide_warm
from rift.boxes.model import Box, Most, Room, State, Warm
from rift.boxes.refusals import freeing
from rift.hosts.model import Shortage

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
SHORT = Shortage((1, 2), None)
OURS, THEIRS = "org_ours", "org_theirs"


def warm(id: str, org: str = OURS, ref: str = "main", state: State = "running", age: int = 0) -> Warm:
    return Warm(id, org, (f"repo of {org}", ref), state, NOW - timedelta(minutes=age))


@pytest.mark.parametrize(
    ("room", "most", "short", "boxes", "decision"),
    [
        (Room(0, 0, 0), Most(1, 1, 1), None, [], Cold()),
        (Room(0, 0, 0), Most(1, 1, 1), None, [warm("a")], Cold()),
        (Room(0, 9, 9), Most(1, 10, None), None, [], Cold()),
        # the organization's bound: its own warm ones give way, nobody else's
        (Room(0, 10, 10), Most(1, 10, None), None, [], Tight("organization")),
        (Room(0, 10, 11), Most(1, 10, None), None, [warm("b", THEIRS)], Tight("organization")),
        (Room(0, 10, 10), Most(1, 10, None), None, [warm("a")], Cold("a")),
        (Room(0, 10, 10), Most(1, 10, 10), None, [warm("a")], Cold("a")),
        # the host's: any, its own first
        (Room(0, 1, 5), Most(1, 10, 5), None, [], Tight("host")),
        (Room(0, 1, 5), Most(1, 10, 5), None, [warm("b", THEIRS)], Cold("b")),
        (Room(0, 1, 5), Most(1, 10, 5), None, [warm("b", THEIRS), warm("c", THEIRS), warm("a")], Cold("a")),
        # short of disk or memory: one goes, but nobody knows whether that is enough
        (Room(0, 0, 0), Most(1, 1, 1), SHORT, [], Tight("reserve")),
        (Room(0, 0, 0), Most(1, 1, 1), SHORT, [warm("b", THEIRS)], Tight("reserve", "b")),
    ],
)
def test_a_cold_claim_finds_room_or_the_bound_that_is_met(
    room: Room, most: Most, short: Shortage | None, boxes: list[Warm], decision: object
) -> None:
    assert decide_cold(room, most, short, OURS, boxes) == decision


@pytest.mark.parametrize(
    ("boxes", "goes"),
    [
        ([warm("a", age=2), warm("b", age=1)], "b"),
        ([warm("a", age=2, state="starting"), warm("b", age=1)], "a"),
        ([warm("a", age=2), warm("b", age=2, ref="dev"), warm("c", age=1, ref="dev")], "c"),
    ],
)
def test_of_the_largest_pool_the_box_with_the_least_behind_it_gives_way(boxes: list[Warm], goes: str) -> None:
    assert decide_cold(Room(0, 9, 9), Most(9, 9, None), None, OURS, boxes) == Cold(goes)
    assert decide_cold(Room(0, 9, 9), Most(9, 9, None), None, OURS, boxes[::-1]) == Cold(goes)


@pytest.mark.parametrize(
    ("wanted", "room", "most", "short", "made"),
    [
        (3, Room(0, 0, 0), Most(1, 10, None), None, 3),
        (3, Room(0, 8, 8), Most(1, 10, None), None, 2),
        (3, Room(0, 0, 4), Most(1, 10, 5), None, 1),
        (3, Room(0, 12, 9), Most(1, 10, 5), None, 0),
        (3, Room(0, 0, 0), Most(1, 10, 5), SHORT, 0),
    ],
)
def test_pools_make_no_more_than_there_is_room_for(
    wanted: int, room: Room, most: Most, short: Shortage | None, made: int
) -> None:
    assert decide_warm(wanted, room, most, short) == made


@given(
    st.integers(0, 20), st.integers(0, 20), st.integers(1, 10), st.integers(1, 10),
    st.lists(st.tuples(st.sampled_from([OURS, THEIRS]), st.sampled_from(["main", "dev"])), max_size=6),
)  # fmt: skip
def test_no_claim_makes_an_organization_or_the_host_larger_than_it_may_be(
    organization: int, host: int, most: int, holds: int, pools: list[tuple[str, str]]
) -> None:
    boxes = [warm(str(n), org, ref) for n, (org, ref) in enumerate(pools)]
    decision = decide_cold(Room(0, organization, host), Most(99, most, holds), None, OURS, boxes)
    if isinstance(decision, Cold):
        left = next((box for box in boxes if box.id == decision.gives_way), None)
        grows = 1 - (left is not None and left.organization == OURS)
        assert organization + grows <= max(most, organization)
        assert host + 1 - (left is not None) <= max(holds, host)
        assert decision.gives_way is None or organization >= most or host >= holds


def box(id: str, task: str, state: State, used: int) -> Box:
    return replace(RUNNING, id=id, task=task, state=state, used_at=NOW - timedelta(minutes=used))


def test_what_can_go_is_named_failed_first_then_parked_then_longest_unused() -> None:
    boxes = [
        box("new", "here", "running", 1),
        box("old", "here", "running", 9),
        box("parked", "here", "parked", 5),
        box("failed", "here", "failed", 0),
        box("else", "there", "running", 2),
        box("else too", "there", "parked", 2),
    ]
    handle = {"task": YOUR_HANDLE}
    assert freeing(boxes, "here") == [
        Call("rift_vm_destroy", {**handle, "vm": "failed"}),
        Call("rift_vm_destroy", {**handle, "vm": "parked"}),
        Call("rift_vm_destroy", {**handle, "vm": "old"}),
        Call("rift_task_attach", {"task": "there"}),
    ]
    assert freeing([], "here") == []
