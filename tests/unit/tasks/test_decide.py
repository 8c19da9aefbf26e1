"""Who may do what to a task: every refusal, their order, and both clocks at their edges."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.ids import digest
from keel.refusal import Call, Refusal
from rift.tasks.decide import Admitted, Attach, Expired, decide_access, decide_attach, decide_open, readable
from rift.tasks.model import Clocks, Handle, Lease, Task

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
CLOCKS = Clocks()
ID = "task_abcd2345"
SECRET, OTHER = digest("the secret"), digest("an older secret")
GOOD, STALE, BARE = Handle(ID, SECRET), Handle(ID, OTHER), Handle(ID, None)

HELD = Task(ID, "ada", "work", "open", SECRET, "mcp:Claude", NOW, NOW, NOW, None)
FREE = replace(HELD, secret_sha256=None, holder=None, held_since=None)
CLOSED = replace(FREE, status="closed", closed_at=NOW)


def quiet(task: Task, **ago: float) -> Task:
    return replace(task, activity_at=NOW - timedelta(**ago))


def said(decision: object) -> object:
    return decision.code if isinstance(decision, Refusal) else decision


@pytest.mark.parametrize(
    ("task", "user", "handle", "expected"),
    [
        (HELD, "ada", GOOD, Admitted(touch=False)),
        (None, "ada", GOOD, "task_unknown"),
        (HELD, "bob", GOOD, "task_unknown"),
        (CLOSED, "ada", GOOD, "task_closed"),
        (FREE, "ada", GOOD, "task_released"),
        (HELD, "ada", STALE, "task_held"),
        # where several fit: a bare id, then not yours, then closed, then released, then stale
        (None, "ada", BARE, "bare_task_id"),
        (CLOSED, "ada", BARE, "bare_task_id"),
        (CLOSED, "bob", STALE, "task_unknown"),
        (FREE, "bob", STALE, "task_unknown"),
        (HELD, "bob", STALE, "task_unknown"),
        (replace(CLOSED, activity_at=NOW - timedelta(hours=9)), "ada", STALE, "task_closed"),
        (quiet(HELD, hours=4), "bob", GOOD, "task_unknown"),
        (FREE, "ada", STALE, "task_released"),
    ],
)
def test_a_call_is_answered_by_the_first_refusal_that_fits(
    task: Task | None, user: str, handle: Handle, expected: object
) -> None:
    assert said(decide_access(task, user, handle, NOW, CLOCKS)) == expected


@pytest.mark.parametrize("handle", [GOOD, STALE])
@pytest.mark.parametrize("task", [HELD, FREE])
def test_a_task_is_over_at_four_hours_of_quiet_and_not_a_second_before(task: Task, handle: Handle) -> None:
    over = quiet(task, hours=4)
    assert decide_access(over, "ada", handle, NOW, CLOCKS) == Expired(over)
    assert decide_attach(over, "ada", handle, True, NOW, CLOCKS) == Expired(over)
    assert not isinstance(
        decide_access(quiet(task, hours=3, minutes=59, seconds=59), "ada", handle, NOW, CLOCKS), Expired
    )


@pytest.mark.parametrize(
    ("seconds", "touch"),
    [(0, False), (59, False), (59.999999, False), (60, True), (3600, True), (-1, False), (-90, False)],
)
def test_the_activity_clock_is_due_after_a_minute_and_never_goes_back(seconds: float, touch: bool) -> None:
    assert decide_access(quiet(HELD, seconds=seconds), "ada", GOOD, NOW, CLOCKS) == Admitted(touch)


@pytest.mark.parametrize(
    ("task", "user", "takeover", "expected"),
    [
        (FREE, "ada", False, Attach(None, touch=False)),
        (quiet(FREE, seconds=60), "ada", True, Attach(None, touch=True)),
        (quiet(HELD, seconds=59), "ada", True, Attach(SECRET, touch=False)),
        (HELD, "ada", False, "task_in_use"),
        (quiet(HELD, minutes=29, seconds=59), "ada", False, "task_in_use"),
        (quiet(HELD, minutes=30), "ada", False, Attach(SECRET, touch=True)),
        (quiet(HELD, minutes=-5), "ada", False, "task_in_use"),
        (None, "ada", True, "task_unknown"),
        (HELD, "bob", True, "task_unknown"),
        (FREE, "bob", False, "task_unknown"),
        (CLOSED, "ada", True, "task_closed"),
        (CLOSED, "ada", False, "task_closed"),
        (CLOSED, "bob", True, "task_unknown"),
    ],
)
@pytest.mark.parametrize("handle", [BARE, STALE, GOOD])
def test_a_free_or_a_quiet_task_is_taken_up_and_a_busy_one_by_takeover_alone(
    task: Task | None, user: str, handle: Handle, takeover: bool, expected: object
) -> None:
    assert said(decide_attach(task, user, handle, takeover, NOW, CLOCKS)) == expected


def test_the_clocks_are_those_that_were_set() -> None:
    short = Clocks(lease=timedelta(seconds=5), close=timedelta(seconds=10))
    assert said(decide_attach(quiet(HELD, seconds=4), "ada", BARE, False, NOW, short)) == "task_in_use"
    assert decide_attach(quiet(HELD, seconds=5), "ada", BARE, False, NOW, short) == Attach(SECRET, touch=False)
    assert isinstance(decide_attach(quiet(HELD, seconds=10), "ada", BARE, False, NOW, short), Expired)


def test_a_stale_handle_is_told_who_holds_the_task_since_when_and_how_to_take_it_over() -> None:
    refused = decide_access(quiet(HELD, minutes=3), "ada", STALE, NOW, CLOCKS)
    assert isinstance(refused, Refusal)
    assert "held by mcp:Claude since 2026-03-04T12:00:00Z" in refused.sentence
    assert refused.mends == (Call("rift_task_attach", {"task": ID, "takeover": True}),)
    assert refused.note is not None
    assert "mcp:Claude" in refused.note


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "less than a minute ago"), (59, "less than a minute ago"), (60, "1 minute ago"), (1799, "29 minutes ago")],
)
def test_an_attach_that_is_refused_says_how_long_ago_the_holder_was_active(seconds: int, words: str) -> None:
    refused = decide_attach(quiet(HELD, seconds=seconds), "ada", BARE, False, NOW, CLOCKS)
    assert isinstance(refused, Refusal)
    assert f"was active {words}" in refused.sentence


def test_not_yours_and_not_there_are_one_text() -> None:
    absent, theirs = (decide_access(task, "bob", GOOD, NOW, CLOCKS) for task in (None, HELD))
    assert absent == theirs
    assert decide_attach(None, "bob", GOOD, True, NOW, CLOCKS) == decide_attach(HELD, "bob", GOOD, True, NOW, CLOCKS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ID}.the secret", GOOD),
        (f"  {ID}.the secret\n", GOOD),
        (ID, BARE),
        (f"{ID}.", BARE),
        (f"{ID}.a.b", Handle(ID, digest("a.b"))),
        (f"{ID}.\ud800", Handle(ID, digest("\ud800"))),
        ("", None),
        (".", None),
        ("task_", None),
        ("task_abcd234", None),
        ("task_abcd23456", None),
        ("task_ABCD2345", None),
        ("task_abcd2340", None),  # 0, 1, i, l and o look like something else
        ("b-abcd2345.x", None),
        (f"{ID} .x", None),
        (f"x{ID}", None),
    ],
)
def test_a_handle_is_read_as_an_id_and_the_digest_of_its_secret(text: str, expected: Handle | None) -> None:
    assert Handle.parse(text) == expected


def test_a_lease_spells_the_handle_that_reads_back_as_its_digest() -> None:
    lease = Lease(HELD, "s-_9")
    assert lease.handle == f"{ID}.s-_9"
    assert Handle.parse(lease.handle) == Handle(ID, digest("s-_9"))


@given(st.text())
def test_a_handle_read_from_any_text_never_keeps_the_text(text: str) -> None:
    handle = Handle.parse(f"{ID}.{text}")
    assert handle is not None
    assert handle.secret_sha256 is None or len(handle.secret_sha256) == 32


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("mend the build", "mend the build"),
        ("  two \t\n lines\x00 ", "two lines"),
        ("\u202eright to left", "right to left"),
        ("größe – 大", "größe – 大"),
        ("\x07\x1b\u200b", ""),
        ("", ""),
    ],
)
def test_a_name_is_kept_as_a_person_reads_it(name: str, kept: str) -> None:
    assert readable(name) == kept


@given(st.text())
def test_a_kept_name_is_printable_and_keeping_it_again_changes_nothing(name: str) -> None:
    kept = readable(name)
    assert kept.isprintable()
    assert readable(kept) == kept == kept.strip()


@pytest.mark.parametrize(("open", "allowed"), [(0, True), (2, True), (3, False), (9, False)])
def test_a_person_opens_no_more_tasks_than_one_may(open: int, allowed: bool) -> None:
    assert (decide_open([HELD] * open, 3, NOW) is None) == allowed
