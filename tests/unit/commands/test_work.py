"""What a box's agent is told, and what it is asked: from the rows of its box and what it has heard already."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.commands.test_decide import BOX, NOW, RUNS

from keel.refusal import Refusal
from rift.boxes.model import State
from rift.commands.decide import Reach, decide_ids, decide_reach, decide_work
from rift.commands.model import Author, CommandId, Told

OWNER = {"email": "ada@example.org", "login": None, "id": None}
HOST = "github.com"
OTHER = "b-" + "c" * 24


def row(n: int | None, **changes: Any) -> dict[str, Any]:
    """A row of a claim: the box's state and epoch, and one of its commands."""
    command = {"kind": "bash", "input": "make", "content": None, "timeout": 60, "stop_wanted": False, "trace": None}
    return {"state": "running", "epoch": 3, "asked": False, "secrets": 7, "owner": OWNER, "n": n, **command, **changes}


def numbers(rows: list[dict[str, Any]], told: Told) -> tuple[list[object], tuple[int, ...]]:
    work = decide_work(rows, (), told, HOST)
    return [command["n"] for command in work.commands], work.stops


@pytest.mark.parametrize(
    ("told", "new", "stops"),
    [
        (Told(), [1], (2, 3)),
        (Told(known=frozenset({1})), [], (2, 3)),
        (Told(known=frozenset({1, 2, 3})), [], (2, 3)),
        (Told(known=frozenset({1, 2, 3}), stopping=frozenset({2})), [], (3,)),
        (Told(stopping=frozenset({1, 2, 3})), [1], ()),
    ],
)
def test_an_agent_is_told_a_command_or_its_stop_until_it_says_that_it_knows(
    told: Told, new: list[object], stops: tuple[int, ...]
) -> None:
    assert numbers([row(1), row(2, stop_wanted=True), row(3, stop_wanted=True)], told) == (new, stops)


def test_an_agent_without_commands_is_told_its_power_and_what_it_is_not_answering_yet() -> None:
    asks: list[dict[str, object]] = [{"id": "a"}, {"id": "b"}]
    work = decide_work([row(None, state="parked", asked=True)], asks, Told(answering=frozenset({"a"})), HOST)
    assert (work.commands, work.stops, work.asks, work.power) == ((), (), ({"id": "b"},), (3, True))


@pytest.mark.parametrize(
    ("owner", "author"),
    [
        (OWNER, Author("ada", "ada@example.org")),
        ({**OWNER, "login": "adal", "id": 42}, Author("adal", "42+adal@users.noreply.github.com")),
        (None, None),
    ],
)
def test_with_a_command_comes_whose_the_commits_are_until_the_agent_has_it(
    owner: dict[str, Any] | None, author: Author | None
) -> None:
    rows = [row(1, owner=owner)]
    assert decide_work(rows, (), Told(), HOST).author == author
    assert decide_work(rows, (), Told(author=Author("grace", "grace@example.org")), HOST).author == author
    assert decide_work(rows, (), Told(author=author), HOST).author is None
    assert decide_work(rows, (), Told(known=frozenset({1})), HOST).author is None


def test_each_kind_of_command_is_told_with_what_it_needs_and_no_more() -> None:
    rows = [row(1, trace="00-t"), row(2, kind="read"), row(3, kind="write", content="x"), row(4, kind="write")]
    common: dict[str, object] = {"timeout": 60}
    assert decide_work(rows, (), Told(), HOST).commands == (
        {"n": 1, "kind": "bash", "command": "make", "trace": "00-t", **common},
        {"n": 2, "kind": "read", "path": "make", **common},
        {"n": 3, "kind": "write", "path": "make", "content": "x", **common},
        {"n": 4, "kind": "write", "path": "make", "content": "", **common},
    )


@pytest.mark.parametrize(
    ("state", "unheard", "reach"),
    [
        ("running", 0, "awake"),
        ("starting", 59, "awake"),
        ("running", 60, "silent"),
        ("parked", 600, "parked"),
        ("failed", 0, "gone"),
        ("destroying", 0, "gone"),
        ("destroyed", 0, "gone"),
    ],
)
def test_a_box_is_asked_for_bytes_while_it_runs_and_its_agent_is_heard(
    state: State, unheard: int, reach: Reach
) -> None:
    assert decide_reach(replace(RUNS, box_state=state), NOW + timedelta(seconds=unheard)) == reach


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ([(f"{BOX}.7", 0), ("make", 0)], "command_id"),
        ([(f"{BOX}.7", 0), (f"{BOX}.7", 5)], "command_twice"),
        ([(f"{BOX}.7", 0), (f"{OTHER}.7", 0)], "command_boxes"),
    ],
)
def test_ids_that_are_none_come_twice_or_are_of_two_boxes_are_refused(wanted: list[tuple[str, int]], code: str) -> None:
    refusal = decide_ids(wanted)
    assert isinstance(refusal, Refusal)
    assert refusal.code == code


def test_ids_are_read_in_their_order_each_with_its_offset() -> None:
    assert decide_ids([(f"{BOX}.9", 4), (f" {BOX}.7", 0)]) == [(CommandId(BOX, 9), 4), (CommandId(BOX, 7), 0)]
