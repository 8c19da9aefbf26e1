"""How a command stands, where its bytes come from, and what may be queued at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from keel.refusal import Call, Refusal
from rift.commands import refusals
from rift.commands.decide import (
    LOST,
    AskBox,
    Reach,
    Tail,
    climbs,
    decide_bytes,
    decide_input,
    decide_next,
    decide_report,
    decide_text,
    share,
)
from rift.commands.model import Answer, Command, CommandId, Piece, Report, State

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
BOX = "b-" + "a" * 24
ID = CommandId(BOX, 7)

QUEUED = Command(
    box=BOX,
    n=7,
    kind="bash",
    input="make",
    timeout=60,
    state="queued",
    stop_wanted=False,
    incarnation=None,
    exit=None,
    reason=None,
    media=None,
    size=None,
    tail=None,
    created_at=NOW,
    claimed_at=None,
    ended_at=None,
    box_state="running",
    box_seen_at=NOW,
)
RUNS = replace(QUEUED, state="claimed", incarnation=1, claimed_at=NOW)
FINISHED = replace(RUNS, state="finished", exit=0, size=10_000, tail=b"x" * 8192, ended_at=NOW)
UNRUN = replace(QUEUED, state="unrun", reason="box destroyed", ended_at=NOW)
WAS_LOST = replace(RUNS, state="lost", reason="lost: the box's agent restarted", ended_at=NOW)


@pytest.mark.parametrize(
    ("command", "silent", "status", "reason", "exit", "ended"),
    [
        (None, False, "did not run", "Rift has no record of this command", None, False),
        (QUEUED, False, "has not finished", "waiting to start", None, False),
        (QUEUED, True, "has not finished", "waiting to start", None, False),
        (RUNS, False, "has not finished", "running", None, False),
        (RUNS, True, "has not finished", LOST, None, True),
        (replace(RUNS, stop_wanted=True), False, "has not finished", "running; a stop is requested", None, False),
        (replace(RUNS, stop_wanted=True), True, "has not finished", LOST, None, True),
        (FINISHED, False, "finished", None, 0, True),
        (FINISHED, True, "finished", None, 0, True),
        (replace(FINISHED, exit=None, reason="box destroyed"), True, "finished", "box destroyed", None, True),
        (UNRUN, False, "did not run", "box destroyed", None, True),
        (UNRUN, True, "did not run", "box destroyed", None, True),
        (WAS_LOST, False, "has not finished", "lost: the box's agent restarted", None, True),
    ],
)
def test_a_command_stands_in_one_of_three_statuses(
    command: Command | None, silent: bool, status: str, reason: str | None, exit: int | None, ended: bool
) -> None:
    report = decide_report(ID, command, silent)
    assert (report.id, report.status, report.reason, report.exit, report.ended) == (
        f"{BOX}.7",
        status,
        reason,
        exit,
        ended,
    )


def test_what_rift_lost_track_of_says_so_first() -> None:
    for command, silent in ((RUNS, True), (WAS_LOST, False)):
        reason = decide_report(ID, command, silent).reason
        assert reason is not None
        assert reason.startswith("lost")


@pytest.mark.parametrize(("seconds", "silent"), [(0, False), (59.9, False), (60, True)])
def test_a_command_is_lost_once_its_agent_was_unheard_for_a_minute(seconds: float, silent: bool) -> None:
    assert replace(RUNS, box_seen_at=NOW - timedelta(seconds=seconds)).silent(NOW) is silent
    assert replace(RUNS, box_seen_at=None).silent(NOW)


@pytest.mark.parametrize("state", ["queued", "claimed", "finished", "unrun", "lost"])
def test_a_record_ended_when_the_command_finished_never_ran_or_was_lost(state: State) -> None:
    assert replace(FINISHED, state=state).ended is (state in ("finished", "unrun", "lost"))


def said(decision: object) -> object:
    return decision.code if isinstance(decision, Refusal) else decision


TAIL = bytes(range(100)) * 82
TAILED = replace(FINISHED, size=10_000, tail=TAIL[-8192:])
FORGOTTEN = replace(FINISHED, tail=None)


@pytest.mark.parametrize(
    ("command", "offset", "reach", "expected"),
    [
        (QUEUED, 0, "awake", Piece("", 0, 0)),
        (QUEUED, 0, "parked", Piece("", 0, 0)),
        (QUEUED, 1, "awake", "offset_past_end"),
        (UNRUN, 0, "gone", Piece("", 0, 0)),
        (UNRUN, 5, "gone", "offset_past_end"),
        (RUNS, 0, "awake", AskBox()),
        (RUNS, 77, "awake", AskBox()),
        (RUNS, 77, "silent", Piece("", 77, 77, None, "silent")),
        (RUNS, 77, "gone", Piece("", 77, 77, None, "gone")),
        (WAS_LOST, 0, "awake", AskBox()),
        (WAS_LOST, 0, "parked", Piece("", 0, 0, None, "parked")),
        (TAILED, 10_001, "awake", "offset_past_end"),
        (TAILED, 10_000, "awake", Piece("", 10_000, 10_000)),
        (TAILED, 10_000, "gone", Piece("", 10_000, 10_000)),
        (TAILED, 10_000 - 8192, "parked", Tail(TAIL[-8192:])),
        (TAILED, 10_000 - 8192, "awake", Tail(TAIL[-8192:])),
        (TAILED, 9_999, "gone", Tail(TAIL[-1:])),
        (TAILED, 10_000 - 8193, "awake", AskBox()),
        (FORGOTTEN, 9_999, "awake", AskBox()),
        (FORGOTTEN, 10_000, "parked", Piece("", 10_000, 10_000)),
        (replace(FINISHED, size=0, tail=b""), 0, "gone", Piece("", 0, 0)),
        (replace(FINISHED, size=None, tail=None), 0, "gone", Piece("", 0, 0, None, "gone")),
    ],
)
def test_bytes_come_from_the_tail_else_from_the_box_else_it_is_said_that_they_cannot_be_had(
    command: Command, offset: int, reach: Reach, expected: object
) -> None:
    assert said(decide_bytes(command, offset, reach)) == expected


@pytest.mark.parametrize("reach", ["parked", "silent", "gone"])
def test_what_only_the_box_has_is_named_and_the_kept_tail_is_given(reach: Reach) -> None:
    piece = decide_bytes(replace(FINISHED, tail=b"y" * 8192), 3, reach)
    assert piece == Piece("y" * 8192, 10_000, 10_000, (3, 10_000 - 8192), reach)  # type: ignore[arg-type]  # not "awake"
    forgotten = decide_bytes(FORGOTTEN, 3, reach)
    assert forgotten == Piece("", 10_000, 10_000, (3, 10_000), reach)  # type: ignore[arg-type]  # not "awake"


def test_an_offset_past_the_end_is_refused_with_the_call_that_reads_from_the_end() -> None:
    refused = decide_bytes(FINISHED, 10_001, "awake")
    assert isinstance(refused, Refusal)
    assert refused.mends == (refusals.reading([(str(ID), 10_000)]),)


@pytest.mark.parametrize(("commands", "bytes_each"), [(1, 65_536), (2, 32_768), (3, 21_845), (4, 16_384)])
def test_one_answer_is_shared_equally_by_its_commands(commands: int, bytes_each: int) -> None:
    assert share(commands) == bytes_each


@pytest.mark.parametrize(
    ("text", "id"),
    [
        (f"{BOX}.7", ID),
        (f" {BOX}.7 ", ID),
        ("app-main-1.12", CommandId("app-main-1", 12)),
        ("app-v1.2-3.4", CommandId("app-v1.2-3", 4)),
        ("a.999999999", CommandId("a", 999_999_999)),
        ("", None),
        ("7", None),
        (".7", None),
        (f"{BOX}.", None),
        (f"{BOX}.0", None),
        (f"{BOX}.07", None),
        (f"{BOX}.-1", None),
        (f"{BOX}.1e3", None),
        ("a.1000000000", None),
        ("a.\u0661", None),
        ("a\n.1", None),
    ],
)
def test_a_commands_id_is_its_boxs_id_and_a_number_split_at_the_last_dot(text: str, id: CommandId | None) -> None:
    assert CommandId.parse(text) == id
    if id is not None:
        assert CommandId.parse(str(id)) == id


@pytest.mark.parametrize(
    ("text", "most", "code"),
    [
        ("ls", 2, None),
        ("", 0, None),
        ("ls ", 2, "too_long"),
        ("é", 1, "too_long"),
        ("é", 2, None),
        ("a\0b", 99, "nul_byte"),
        ("a\0" * 99, 9, "nul_byte"),
        ("a\ud800", 99, "not_text"),
    ],
)
def test_a_text_is_carried_into_a_box_as_it_is_or_not_at_all(text: str, most: int, code: str | None) -> None:
    assert said(decide_text("rift_bash", "command", text, most)) == code


@pytest.mark.parametrize(
    ("tool", "input", "content", "code"),
    [
        ("rift_bash", "make", None, None),
        ("rift_bash", "cd ../../../../..; ls", None, None),
        ("rift_bash", "x" * 131_072, None, None),
        ("rift_bash", "x" * 131_073, None, "too_long"),
        ("rift_bash", " \n\t", None, "empty"),
        ("rift_bash", "", None, "empty"),
        ("rift_bash", "printf '\0'", None, "nul_byte"),
        ("rift_bash", "echo \udcff", None, "not_text"),
        ("rift_read", "README.md", None, None),
        ("rift_read", "", None, "empty"),
        ("rift_read", "a\0b", None, "nul_byte"),
        ("rift_read", "x" * 4096, None, None),
        ("rift_read", "x" * 4097, None, "too_long"),
        ("rift_read", "../../../../etc/passwd", None, "path_outside"),
        ("rift_write", "a/b", "", None),
        ("rift_write", "a/b", "x\n", None),
        ("rift_write", "a/b", "\0", "nul_byte"),
        ("rift_write", "a/b", "\udc80", "not_text"),
        ("rift_write", "a/b", "x" * (8 * 2**20), None),
        ("rift_write", "a/b", "x" * (8 * 2**20 + 1), "too_long"),
        ("rift_write", "/../x", "x", "path_outside"),
        ("rift_write", " ", "x", "empty"),
    ],
)
def test_what_no_box_can_take_is_refused_before_anything_runs(
    tool: str, input: str, content: str | None, code: str | None
) -> None:
    refused = decide_input(tool, input, content)
    assert said(refused) == code
    if isinstance(refused, Refusal):
        assert "Nothing ran." in refused.sentence


def test_a_text_that_is_too_long_is_told_its_bytes_and_the_most() -> None:
    refused = decide_input("rift_bash", "é" * 70_000, None)
    assert isinstance(refused, Refusal)
    assert "140000 bytes; the most is 131072" in refused.sentence


@pytest.mark.parametrize(
    ("path", "outside"),
    [
        ("README.md", False),
        ("/etc/hosts", False),
        ("..", False),
        ("../..", False),
        ("../../..", False),
        ("../../../..", True),
        ("../../../../home", True),
        ("a/../../../..", False),
        ("a/../../../../..", True),
        ("a/b/c/../../../../../..", False),
        ("./././../../../.", False),
        ("//..", True),
        ("/..", True),
        ("/a/..", False),
        ("/a/../..", True),
        ("...", False),
        ("..a/..b", False),
    ],
)
def test_a_path_climbs_when_it_goes_above_the_root_by_its_own_words(path: str, outside: bool) -> None:
    assert climbs(path) is outside


def answer(n: int, status: str, *, ended: bool, at: int = 0, size: int = 0, why: str | None = None) -> Answer:
    report = Report(f"{BOX}.{n}", status, None, None, ended)  # type: ignore[arg-type]  # one of the three
    return Answer(report, Piece("", at, size, None, why))  # type: ignore[arg-type]  # one of the three


def test_the_next_call_waits_on_what_is_open_and_reads_what_remains() -> None:
    answers = [
        answer(1, "finished", ended=True, at=10, size=10),
        answer(2, "finished", ended=True, at=5, size=10),
        answer(3, "has not finished", ended=False, at=7, size=7),
        answer(4, "has not finished", ended=True, at=3, size=3),
        answer(5, "did not run", ended=True),
        answer(6, "did not run", ended=False),
        answer(7, "finished", ended=True, at=0, size=10, why="gone"),
        answer(8, "has not finished", ended=True, at=3, size=9),
    ]
    assert decide_next(answers) == [(f"{BOX}.2", 5), (f"{BOX}.3", 7), (f"{BOX}.8", 3)]
    assert decide_next([]) == []


def test_commands_of_two_boxes_are_refused_with_one_call_for_each() -> None:
    refused = refusals.several_boxes(["b-1.1", "b-2.1", "b-1.2"], 2)
    calls = [mend for mend in refused.mends if isinstance(mend, Call)]
    assert [[one["id"] for one in call.arguments["commands"]] for call in calls] == [  # type: ignore[attr-defined]  # a list of objects
        ["b-1.1", "b-1.2"],
        ["b-2.1"],
    ]
