"""What a query asks for: everything that is wrong with it at once, and cursors that are good for it alone."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbe.records import decide
from onbe.records.model import Series, Span, Wanted

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
REASONS = ("task_revoked", "sponsor_disabled")
DAY = timedelta(days=1)
WORDS = st.text(max_size=12)
NAMES = st.sampled_from(
    ["sponsor", "agent_id", "task_id", "from", "to", "decision", "limit", "cursor", "by", "after", "x"]
)
INSTANTS = st.datetimes(datetime(1970, 1, 2), datetime(9990, 1, 1), timezones=st.just(UTC))


def test_every_parameter_is_read_as_it_is_meant() -> None:
    asked = decide.wanted(
        [
            ("sponsor", "ada"), ("agent_id", "planner"), ("task_id", "task_1"), ("from", "2026-03-01T00:00:00Z"),
            ("to", "2026-03-02T01:00:00+01:00"), ("decision", "task_revoked"), ("limit", "200"),
        ],
        REASONS,
    )  # fmt: skip
    since = datetime(2026, 3, 1, tzinfo=UTC)
    assert asked == Wanted("ada", "planner", "task_1", since, since + DAY, "task_revoked", None, 200)
    assert decide.wanted([], REASONS) == Wanted()


def test_everything_that_is_wrong_is_told_at_once() -> None:
    query = [
        ("sponsor", ""), ("agent_id", "a\x00b"), ("task_id", "a"), ("task_id", "b"), ("from", "2026-03-01"),
        ("to", "tomorrow"), ("decision", "maybe"), ("limit", "201"), ("cursor", "AAAA"), ("who\n<b>", "x"),
    ]  # fmt: skip
    problems = decide.wanted(query, REASONS)
    assert isinstance(problems, list)
    assert {one.parameter for one in problems} == {
        "sponsor", "agent_id", "task_id", "from", "to", "decision", "limit", "cursor", "who?<b>",
    }  # fmt: skip
    told = " ".join(one.sentence for one in problems)
    assert not any(value in told for _, value in query if len(value) > 1 and value != "201")


@pytest.mark.parametrize("limit", ["0", "-1", "1e2", "٣", "", "1" * 400, " 5", "201"])
def test_a_limit_that_is_no_number_of_a_page_is_told(limit: str) -> None:
    problems = decide.wanted([("limit", limit)], REASONS)
    assert isinstance(problems, list)
    assert [one.parameter for one in problems] == ["limit"]


def test_an_end_before_its_beginning_is_told() -> None:
    problems = decide.wanted([("from", "2026-03-02T00:00:00Z"), ("to", "2026-03-02T00:00:00Z")], REASONS)
    assert isinstance(problems, list)
    assert [one.parameter for one in problems] == ["to"]


@given(st.lists(st.tuples(NAMES, WORDS), max_size=6))
def test_no_query_is_a_surprise(query: list[tuple[str, str]]) -> None:
    for said in (decide.wanted(query, REASONS), decide.span(query, NOW), decide.series(query)):
        assert isinstance(said, Wanted | Span | Series) or (said and all(one.sentence for one in said))
    decide.number(query[0][1] if query else "")


@given(INSTANTS, st.integers(1, 2**61), st.text(min_size=1, max_size=9))
def test_a_cursor_leads_back_to_its_place_for_its_own_query_alone(at: datetime, seq: int, sponsor: str) -> None:
    asked = Wanted(sponsor=sponsor, limit=7)
    text = decide.cursor(asked, (at, seq))
    assert decide.place(text, asked) == (at, seq)
    assert decide.place(text, Wanted(sponsor=sponsor, limit=9)) == (at, seq)
    for other in (Wanted(), Wanted(agent=sponsor), Wanted(sponsor=sponsor, decision="deny")):
        assert decide.place(text, other) is None


@given(st.integers(0, 23), st.integers(1, 255))
def test_a_cursor_of_which_a_byte_was_changed_is_none(index: int, by: int) -> None:
    packed = bytearray(base64.urlsafe_b64decode(decide.cursor(Wanted(), (NOW, 4711))))
    packed[index] ^= by
    assert decide.place(base64.urlsafe_b64encode(bytes(packed)).decode(), Wanted()) is None


@given(st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_what_is_no_cursor_is_none(text: str) -> None:
    assert decide.place(text, Wanted()) is None


def test_a_sum_is_of_the_last_day_where_nothing_is_said() -> None:
    assert decide.span([("by", "agent")], NOW) == Span("agent", NOW - DAY, NOW)
    since = NOW - 3 * DAY
    assert decide.span([("by", "reason"), ("from", since.isoformat())], NOW) == Span("reason", since, NOW)
    assert decide.span([("by", "sponsor"), ("to", since.isoformat())], NOW) == Span("sponsor", since - DAY, since)
    later = NOW + DAY
    assert decide.span([("by", "agent"), ("from", later.isoformat())], NOW) == Span("agent", later, later + DAY)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ([], {"by"}),
        ([("by", "task"), ("from", "x"), ("since", "y")], {"by", "from", "since"}),
        ([("from", "x")], {"by", "from"}),
        ([("by", "agent"), ("from", "2026-01-01T00:00:00Z"), ("to", "2026-02-02T00:00:00Z")], {"from"}),
        ([("by", "agent"), ("from", "9998-12-31T23:00:00Z"), ("to", "1970-01-01T00:00:00Z")], {"to"}),
    ],
)
def test_a_sum_that_cannot_be_made_tells_all_that_is_wrong(query: list[tuple[str, str]], wrong: set[str]) -> None:
    problems = decide.span(query, NOW)
    assert isinstance(problems, list)
    assert {one.parameter for one in problems} == wrong
