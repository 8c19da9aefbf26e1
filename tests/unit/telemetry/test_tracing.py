"""Places in traces, the facade that does nothing until it is started, and times that can be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.telemetry import tracing
from keel.telemetry.telling import wanted
from keel.telemetry.tracing import Fact, Kind, Place
from rift.commands.decide import decide_times
from rift.settings import TelemetrySettings

T, S = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.spans: list[Recorded] = []
        self.closed = False

    def begin(self, service: str, name: str, kind: Kind, parent: Place | None, since: datetime | None) -> Recorded:
        made = Recorded(name, parent, Place(parent.trace if parent else 7, len(self.spans) + 1, True))
        self.spans.append(made)
        return made

    def close(self, seconds: float) -> None:
        self.closed = True


class Recorded:
    def __init__(self, name: str, parent: Place | None, place: Place) -> None:
        self.name, self.parent, self.place = name, parent, place
        self.facts: dict[str, Fact] = {}
        self.error: str | None = None
        self.ended = 0

    def set(self, facts: Mapping[str, Fact]) -> None:
        self.facts.update(facts)

    def end(self, at: datetime | None, error: str | None) -> None:
        self.error, self.ended = error, self.ended + 1


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    tracing.start(made)
    yield made
    tracing.stop()
    assert made.closed


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"00-{T}-{S}-01", Place(int(T, 16), int(S, 16), True)),
        (f" 00-{T}-{S}-00\t", Place(int(T, 16), int(S, 16), False)),
        (f"01-{T}-{S}-03-more", Place(int(T, 16), int(S, 16), True)),
        (f"00-{T}-{S}-01-more", None),
        (f"ff-{T}-{S}-01", None),
        (f"00-{T.upper()}-{S}-01", None),
        (f"00-{'0' * 32}-{S}-01", None),
        (f"00-{T}-{'0' * 16}-01", None),
        (f"00-{T}-{S}-1", None),
        (f"01-{T}-{S}-01-" + "x" * 1000, None),
        ("", None),
        (None, None),
        (7, None),
        ([f"00-{T}-{S}-01"], None),
    ],
)
def test_a_traceparent_is_read_as_the_recommendation_says(text: object, place: Place | None) -> None:
    assert tracing.parse(text) == place


@given(st.text(max_size=100))
def test_whatever_is_read_is_written_as_one_that_is_read_alike(text: str) -> None:
    place = tracing.parse(text)
    assert place is None or tracing.parse(str(place)) == place


def test_nothing_is_made_or_told_until_somebody_records() -> None:
    with tracing.span("a", root=True) as one, tracing.span("b", parent=Place(1, 2, True)) as two:
        assert one is two
        one.say(nonsense="goes nowhere")
        assert (one.place, tracing.here(), tracing.on()) == (None, None, False)
    assert tracing.past("x", "y", Place(1, 2, True), NOON, NOON) is None


async def test_spans_stand_under_the_one_of_their_task_and_none_begins_a_trace_unasked(recorder: Recorder) -> None:
    with tracing.span("orphan"):
        assert tracing.here() is None
    with tracing.span("root", root=True) as root:

        async def child() -> None:
            with tracing.span("child"):
                pass

        await asyncio.gather(asyncio.create_task(child()), asyncio.create_task(child()))
    assert tracing.here() is None
    assert [(span.name, span.parent) for span in recorder.spans] == [
        ("root", None), ("child", root.place), ("child", root.place),
    ]  # fmt: skip
    assert [span.ended for span in recorder.spans] == [1, 1, 1]


def test_an_exception_leaves_its_kind_and_never_its_text(recorder: Recorder) -> None:
    with pytest.raises(ValueError), tracing.span("root", root=True):
        raise ValueError("a secret")
    (span,) = recorder.spans
    assert (span.error, span.facts) == ("ValueError", {})


def test_a_fact_that_is_not_on_the_list_cannot_be_told_and_a_long_one_is_cut(recorder: Recorder) -> None:
    with tracing.span("root", root=True, tool="x" * 10_000) as span, pytest.raises(KeyError):
        span.say(text="echo secret")
    assert recorder.spans[0].facts == {"rift.tool": "x" * tracing.VALUE_CHARACTERS}


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=0, max_value=1e11), max_size=3),
    st.integers(0, 10**6),
)
def test_an_agents_times_are_in_order_after_its_claim_and_never_in_the_future(told: list[float], later: int) -> None:
    now = NOON + timedelta(seconds=later)
    times = decide_times(told, NOON, now)
    assert len(times) == len(told)
    assert times == sorted(times)
    assert all(NOON <= at <= now for at in times)


def test_times_of_a_clock_that_agrees_are_kept_as_they_are() -> None:
    told = [NOON.timestamp() + part for part in (0.25, 0.5, 2.0)]
    times = decide_times(told, NOON, NOON + timedelta(seconds=3))
    assert [(at - NOON).total_seconds() for at in times] == [0.25, 0.5, 2.0]


@pytest.mark.parametrize(
    ("settings", "environment", "yes"),
    [
        (None, {}, False),
        ("http://127.0.0.1:4318", {}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ("http://127.0.0.1:4318", {"OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_traces_are_sent_where_a_setting_or_the_standard_variables_say(
    settings: str | None, environment: dict[str, str], yes: bool
) -> None:
    assert wanted(TelemetrySettings(otlp_endpoint=settings).otlp_endpoint, environment) is yes
