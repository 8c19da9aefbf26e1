"""What may be done with a box in each of its states, which box a word means, and how boxes are named."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.refusal import Call, Refusal
from rift.boxes import refusals
from rift.boxes.decide import (
    Enqueue,
    Park,
    decide_again,
    decide_command,
    decide_failed_start,
    decide_idle,
    decide_pick,
    decide_suspend,
    decide_upkeep,
)
from rift.boxes.model import LIVING, TRANSITIONS, Box, OpenCommand, Standing, State, smallest_free, stem

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
STATES: tuple[State, ...] = get_args(State)

RUNNING = Box(
    id="b-" + "a" * 24,
    name="app-main-1",
    number=1,
    repo="repo_1",
    ref="main",
    commit="c" * 40,
    task="task_abcd2345",
    state="running",
    failure=None,
    incarnation=1,
    epoch=1,
    token_sha256=bytes(32),
    next_command=8,
    seen_at=NOW,
    used_at=NOW,
    created_at=NOW,
    ended_at=None,
    repo_owner="acme",
    repo_name="app",
    org="org_1",
    network="proxy",
)


def box(state: State, **more: object) -> Box:
    return replace(RUNNING, state=state, **more)  # type: ignore[arg-type]  # the fields that a test names


def open_commands(count: int) -> list[OpenCommand]:
    return [OpenCommand(RUNNING.id, n, "bash", "make", False, NOW) for n in range(1, count + 1)]


def said(decision: object) -> object:
    return decision.code if isinstance(decision, Refusal) else decision


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("running", Enqueue(wake=False)),
        ("starting", Enqueue(wake=False)),
        ("parked", Enqueue(wake=True)),
        ("failed", "vm_failed"),
        ("destroying", "vm_gone"),
        ("destroyed", "vm_gone"),
    ],
)
def test_a_living_box_takes_commands_and_a_parked_one_wakes_for_them(state: State, expected: object) -> None:
    assert said(decide_command(box(state, failure="no disk"))) == expected


def test_a_fifth_command_is_refused_naming_the_four_open_with_the_calls_that_take_their_ids() -> None:
    refused = refusals.full(RUNNING, open_commands(4))
    ids = [f"{RUNNING.id}.{n}" for n in (1, 2, 3, 4)]
    assert ", ".join(ids) in refused.sentence
    wait, *stops = refused.mends
    assert isinstance(wait, Call)
    assert wait.arguments["commands"] == [{"id": id, "offset": 0} for id in ids]
    assert stops == [Call("rift_stop", {"task": "<your handle>", "id": id}) for id in ids]


@pytest.mark.parametrize(
    ("state", "open", "expected"),
    [
        ("running", 0, Park(needed=True)),
        ("running", 1, "vm_busy"),
        ("parked", 0, Park(needed=False)),
        ("starting", 0, "vm_starting"),
        ("starting", 1, "vm_starting"),
        ("failed", 0, "vm_failed"),
        ("destroying", 0, "vm_gone"),
        ("destroyed", 0, "vm_gone"),
    ],
)
def test_a_box_parks_when_it_runs_and_has_no_open_command(state: State, open: int, expected: object) -> None:
    assert said(decide_suspend(box(state, failure="no disk"), open_commands(open))) == expected


def test_a_box_that_failed_says_its_whole_reason() -> None:
    reason = "line one\n" * 300
    refused = decide_command(box("failed", failure=reason))
    assert isinstance(refused, Refusal)
    assert reason in refused.sentence


@pytest.mark.parametrize(
    ("state", "task", "open", "ago", "idle"),
    [
        ("running", "task_abcd2345", 0, HALF_HOUR, True),
        ("running", "task_abcd2345", 0, HALF_HOUR - timedelta(seconds=1), False),
        ("running", "task_abcd2345", 1, timedelta(days=3), False),
        ("running", None, 0, timedelta(days=3), False),
        ("starting", "task_abcd2345", 0, timedelta(days=3), False),
        ("parked", "task_abcd2345", 0, timedelta(days=3), False),
        ("failed", "task_abcd2345", 0, timedelta(days=3), False),
        ("destroying", "task_abcd2345", 0, timedelta(days=3), False),
        ("running", "task_abcd2345", 0, -HALF_HOUR, False),
    ],
)
def test_a_box_is_idle_after_half_an_hour_without_a_call_or_an_open_command(
    state: State, task: str | None, open: int, ago: timedelta, idle: bool
) -> None:
    assert decide_idle(box(state, task=task, used_at=NOW - ago), open, NOW, HALF_HOUR) is idle


def test_an_id_or_the_name_that_one_box_has_means_that_box() -> None:
    other = replace(RUNNING, id="b-" + "b" * 24, name="app-main-2")
    assert decide_pick(RUNNING.id, [other, RUNNING]) == RUNNING
    assert decide_pick("app-main-2", [RUNNING, other]) == other


def test_two_boxes_of_one_name_are_told_apart_by_their_ids() -> None:
    twin = replace(RUNNING, id="b-" + "b" * 24)
    refused = decide_pick("app-main-1", [RUNNING, twin])
    assert isinstance(refused, Refusal)
    assert refused.code == "vm_ambiguous"
    assert RUNNING.id in refused.sentence
    assert twin.id in refused.sentence
    assert decide_pick(twin.id, [RUNNING, twin]) == twin


@pytest.mark.parametrize("state", ["destroyed", "destroying"])
def test_a_box_that_is_going_answers_to_its_id_and_leaves_its_name_to_another(state: State) -> None:
    gone = box(state, id="b-" + "b" * 24)
    assert decide_pick(gone.id, [gone]) == gone
    assert said(decide_pick("app-main-1", [gone])) == "vm_unknown"
    assert decide_pick("app-main-1", [gone, RUNNING]) == RUNNING


def test_a_box_whose_id_is_its_name_is_meant_by_it_before_any_other_of_that_name() -> None:
    old = replace(RUNNING, id="app-main-1")
    assert decide_pick("app-main-1", [RUNNING, old]) == old


@pytest.mark.parametrize("vm", ["", "app-main-9", "b-" + "f" * 24, "app-main-1 ", "APP-MAIN-1"])
def test_a_word_that_means_no_box_of_the_task_is_refused(vm: str) -> None:
    refused = decide_pick(vm, [RUNNING])
    assert isinstance(refused, Refusal)
    assert refused.code == "vm_unknown"
    assert Call("rift_vm_new", {"task": "<your handle>", "repo": "acme/app", "ref": "main"}) in refused.mends
    assert said(decide_pick(vm, [])) == "vm_unknown"


def test_every_state_has_its_ways_and_the_last_one_has_none() -> None:
    assert set(TRANSITIONS) == set(STATES)
    into = {new: {old for old in STATES if new in TRANSITIONS[old]} for new in STATES}
    assert into["destroying"] == LIVING | {"failed"}
    assert into["destroyed"] == {"destroying"}
    assert into["starting"] == set()
    assert not TRANSITIONS["destroyed"]


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ("main", "app-main"),
        ("feature/login page", "app-feature-login-page"),
        ("v1.2_rc", "app-v1.2_rc"),
        ("größe", "app-gr--e"),
        ("a#b@c", "app-a-b-c"),
    ],
)
def test_a_name_is_the_repository_and_the_ref_with_what_is_odd_made_a_dash(ref: str, name: str) -> None:
    assert stem("app", ref) == name


@given(st.sets(st.integers(1, 40)))
def test_the_smallest_free_number_is_free_and_none_below_it_is(taken: set[int]) -> None:
    number = smallest_free(taken)
    assert number not in taken
    assert set(range(1, number)) <= taken


WELL = Standing("b-1", "running", NOW, NOW, over=False, claimed=True, closed=False, member=True)


@pytest.mark.parametrize(
    ("box", "step"),
    [
        (WELL, None),
        (replace(WELL, seen_at=NOW - timedelta(seconds=30)), None),
        (replace(WELL, seen_at=NOW - timedelta(seconds=31)), "revive"),
        (replace(WELL, over=True), "revive"),
        (replace(WELL, over=True, state="parked"), None),
        (replace(WELL, used_at=NOW - timedelta(minutes=29, seconds=59)), None),
        (replace(WELL, used_at=NOW - HALF_HOUR), "park"),
        (replace(WELL, used_at=NOW - HALF_HOUR, claimed=False), None),
        (replace(WELL, state="starting"), "start"),
        (replace(WELL, state="parked", seen_at=NOW - HALF_HOUR), None),
        (replace(WELL, state="failed"), None),
        (replace(WELL, state="failed", claimed=False, member=False), "orphan"),
        (replace(WELL, claimed=False, member=False), None),
        (replace(WELL, closed=True), "orphan"),
        (replace(WELL, member=False), "orphan"),
        (replace(WELL, state="starting", closed=True), "orphan"),
        (replace(WELL, state="destroying", closed=True, member=False), "destroy"),
        (replace(WELL, state="destroyed", closed=True), None),
    ],
)
def test_upkeep_takes_the_next_step_of_each_box(box: Standing, step: str | None) -> None:
    assert decide_upkeep(box, NOW, timedelta(seconds=30), HALF_HOUR) == step


@pytest.mark.parametrize(
    ("tries", "heard_for", "attempt"),
    [
        (0, None, 1),
        (2, None, 3),
        (3, None, None),
        (3, timedelta(seconds=119), None),
        (3, timedelta(seconds=120), 1),
        (1, timedelta(seconds=30), 2),
    ],
)
def test_an_agent_that_does_not_stay_up_is_started_three_times_and_one_that_did_begins_anew(
    tries: int, heard_for: timedelta | None, attempt: int | None
) -> None:
    one = box("running", tries=tries)
    if heard_for is not None:
        one = replace(one, began_at=NOW, seen_at=NOW + heard_for)
    assert decide_again(one, 3, timedelta(minutes=2)) == attempt


@pytest.mark.parametrize(
    ("state", "reason", "becomes"),
    [
        ("running", "No space left on device: token.new", "wait"),
        ("running", "the checkout could not be made: fatal: Disk quota exceeded", "wait"),
        ("running", "There is no git.", "fail"),
        ("starting", "No space left on device: token.new", "fail"),
    ],
)
def test_a_box_with_work_in_it_waits_for_room_on_the_disk_and_a_new_one_says_that_there_is_none(
    state: State, reason: str, becomes: str
) -> None:
    assert decide_failed_start(box(state), reason) == becomes
