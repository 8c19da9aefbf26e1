"""What `rift doctor` says of what it counted, from plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rift.cli.counting import Facts, Finding, decide_findings
from rift.drivers.boxes.local.remains import Remains
from rift.health.store import Found, Queue

IDS = frozenset({"b-1", "b-2"})
WELL = Facts(
    Remains(IDS, frozenset(), {"b-1": 1}, IDS),
    IDS,
    (Found("b-1", "running", silent=False), Found("b-2", "parked", silent=False)),
    Queue(1, 2, 0, 0),
    served=True,
    up="rift up",
)


def finding(facts: Facts, name: str) -> Finding:
    return next(one for one in decide_findings(facts) if one.name == name)


def test_where_all_is_well_everything_is_counted_and_nothing_is_to_mend() -> None:
    found = decide_findings(WELL)
    assert all(one.ok and one.mend is None for one in found)
    assert finding(WELL, "boxes").sentence == "Boxes by state: 1 parked, 1 running; 2 on this host."
    assert finding(WELL, "boxes").numbers == {"running": 1, "parked": 1, "on_host": 2, "agents": 1}
    assert finding(WELL, "jobs").numbers == {"waiting": 1, "doing": 2, "orphaned": 0, "late": 0}


@pytest.mark.parametrize(
    ("kind", "remains", "pins"),
    [
        ("folders", replace(WELL.remains, folders=IDS | {"b-left"}), IDS),
        ("agents", replace(WELL.remains, agents={"b-1": 1, "b-left": 1}), IDS),
        ("cgroups", replace(WELL.remains, groups=IDS | {"b-left"}), IDS),
        ("pins", WELL.remains, IDS | {"b-left"}),
    ],
)
def test_whatever_is_left_of_a_box_that_is_gone_is_named_by_its_kind(
    kind: str, remains: Remains, pins: frozenset[str]
) -> None:
    one = finding(replace(WELL, remains=remains, pins=pins), "left behind")
    assert not one.ok
    assert {name for name, number in one.numbers.items() if number} == {kind}
    assert one.sentence.startswith(f"Left of boxes that are gone: 1 {kind} (b-left). Upkeep removes these within 30 s")
    assert one.mend is None


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("files of boxes", replace(WELL, remains=replace(WELL.remains, folders=frozenset({"b-1"})))),
        ("agents", replace(WELL, remains=replace(WELL.remains, agents={"b-1": 2}))),
        ("checkouts", replace(WELL, remains=replace(WELL.remains, half_made=frozenset({"b-2"})))),
        ("heard", replace(WELL, boxes=(Found("b-1", "running", silent=True), Found("b-2", "parked", silent=False)))),
        ("jobs", replace(WELL, queue=Queue(1, 0, 0, 1))),
        ("jobs", replace(WELL, queue=Queue(0, 1, 1, 0))),
    ],
)
def test_what_is_not_as_it_should_be_is_one_finding_and_without_a_server_names_the_one_command(
    name: str, facts: Facts
) -> None:
    wrong = [one for one in decide_findings(facts) if not one.ok]
    assert [one.name for one in wrong] == [name]
    assert sum(wrong[0].numbers.values()) >= 1
    assert wrong[0].mend is None
    down = finding(replace(facts, served=False), name)
    assert down.mend == "rift up"


def test_a_box_that_starts_may_be_half_made_and_without_files() -> None:
    starting = (*WELL.boxes, Found("b-3", "starting", silent=False)) if WELL.boxes else ()
    half = replace(WELL.remains, half_made=frozenset({"b-3"}), folders=IDS | {"b-3"})
    assert all(one.ok for one in decide_findings(replace(WELL, boxes=starting)))
    assert all(one.ok for one in decide_findings(replace(WELL, boxes=starting, remains=half)))


@pytest.mark.parametrize("served", [True, False])
def test_a_database_that_is_down_is_a_fault_only_while_something_serves(served: bool) -> None:
    (one,) = decide_findings(replace(WELL, boxes=None, queue=None, served=served))
    assert one.ok is not served
    assert "database is down" in one.sentence
    assert one.numbers["on_host"] == 2


def test_many_boxes_are_named_up_to_five_and_counted_beyond() -> None:
    many = frozenset(f"b-x{number}" for number in range(7))
    one = finding(replace(WELL, remains=replace(WELL.remains, folders=IDS | many)), "left behind")
    assert "7 folders (b-x0, b-x1, b-x2, b-x3, b-x4 and 2 more)" in one.sentence
