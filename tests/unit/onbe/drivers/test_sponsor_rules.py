"""When an answer about a person serves again, and when a failing directory is left alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keel.testing.fakes import START
from onbe.drivers.sponsors.rules import (
    FAILURES,
    OPEN_SECONDS,
    Circuit,
    Moment,
    admit,
    answered,
    dropped,
    failed,
    serves,
)

seconds = st.floats(-1e6, 1e6)


def moment(wall: float, monotonic: float) -> Moment:
    return Moment(START + timedelta(seconds=wall), monotonic)


@pytest.mark.parametrize(
    ("asked", "now", "wanted", "serves_again"),
    [
        pytest.param((0, 0), (0, 0), 0, True, id="in the same instant"),
        pytest.param((0, 0), (30, 30), 0, True, id="just young enough"),
        pytest.param((0, 0), (31, 31), 1, False, id="a second too old"),
        pytest.param((0, 0), (30, 30), 30, False, id="a fresh one is wanted"),
        pytest.param((0, 0), (-3600, 20), -3630, True, id="the clock was set back, the age is fine"),
        pytest.param((0, 0), (-3600, 31), -3630, False, id="the clock was set back, and the age is too much"),
        pytest.param((0, 0), (3600, 1), 3570, False, id="the clock was set ahead"),
        pytest.param((0, 0), (-10, 1), 0, False, id="wanted is an instant that the clock has not come to again"),
    ],
)
def test_an_answer_serves_while_it_is_young_enough_on_both_clocks(
    asked: tuple[float, float], now: tuple[float, float], wanted: float, serves_again: bool
) -> None:
    assert serves(moment(*asked), moment(*now), START + timedelta(seconds=wanted)) is serves_again


@given(asked=seconds, elapsed=st.floats(0, 1e6), jump=seconds, allowed=st.floats(0, 1e5))
def test_no_jump_of_the_clock_makes_an_answer_serve_longer_than_it_may(
    asked: float, elapsed: float, jump: float, allowed: float
) -> None:
    now = moment(asked + elapsed + jump, elapsed)
    if serves(moment(asked, 0.0), now, now.wall - timedelta(seconds=allowed)):
        assert elapsed <= allowed + 1e-5


def row(circuit: Circuit, *people: str | None) -> Circuit:
    """The circuit after a question about each of them failed, at monotonic 100."""
    for person in people:
        circuit, may = admit(circuit, 100.0)
        assert may
        circuit = failed(circuit, circuit.life, 100.0, person)
    return circuit


def test_five_failures_in_a_row_open_it_for_five_seconds_and_then_one_probes() -> None:
    circuit = row(Circuit(), "a", "b", "c", "d")
    assert admit(circuit, 100.0)[1]
    circuit = failed(circuit, 0, 100.0, "e")
    assert not admit(circuit, 100.0 + OPEN_SECONDS - 0.001)[1]
    probing, may = admit(circuit, 100.0 + OPEN_SECONDS)
    assert may
    assert not admit(probing, 1e9)[1], "exactly one"
    again = failed(probing, probing.life, 200.0, "z")
    assert not admit(again, 204.9)[1]
    probing, may = admit(again, 205.0)
    assert may
    closed = answered(probing, probing.life)
    assert [admit(closed, 205.0)[1] for _ in range(9)] == [True] * 9
    assert closed.failures == 0


def test_an_answer_in_between_begins_the_row_anew() -> None:
    circuit = answered(row(Circuit(), "a", "b", "c", "d"), 0)
    assert row(circuit, "a", "b", "c", "d").until is None


def test_one_persons_failing_questions_count_once() -> None:
    circuit = row(Circuit(), *["a"] * 100)
    assert (circuit.failures, circuit.until) == (1, None)
    assert row(circuit, "b", "c", "d").until is None


def test_a_directory_that_cannot_be_reached_at_all_fails_for_everybody() -> None:
    assert row(Circuit(), *[None] * FAILURES).until == 100.0 + OPEN_SECONDS


def test_what_was_asked_before_it_opened_tells_nothing_afterwards() -> None:
    circuit = row(Circuit(), "a", "b", "c", "d", "e")
    assert answered(circuit, 0) == circuit
    assert failed(circuit, 0, 300.0, "f") == circuit
    probing, _ = admit(circuit, 105.0)
    for late in (answered(probing, 0), failed(probing, 0, 300.0, None), dropped(probing, 0)):
        assert late == probing, "the probe alone decides"


def test_a_probe_that_was_given_up_makes_room_for_another() -> None:
    probing, _ = admit(row(Circuit(), "a", "b", "c", "d", "e"), 105.0)
    assert admit(dropped(probing, probing.life), 105.0)[1]


@given(st.lists(st.tuples(st.sampled_from("qafdt"), st.integers(0, 30), st.sampled_from(["a", "b", None]))))
def test_it_never_lets_two_probe_and_never_stays_shut(steps: list[tuple[str, int, str | None]]) -> None:
    circuit, now, sent = Circuit(), 0.0, list[tuple[int, bool]]()
    for step, number, person in steps:
        if step == "t":
            now += number / 4
        elif step == "q":
            was_open = circuit.until is not None
            circuit, may = admit(circuit, now)
            if may:
                sent.append((circuit.life, was_open))
        elif sent:
            life, _ = sent.pop(number % len(sent))
            if step == "a":
                circuit = answered(circuit, life)
            elif step == "f":
                circuit = failed(circuit, life, now, person)
            else:
                circuit = dropped(circuit, life)
        assert sum(probe and life == circuit.life for life, probe in sent) <= 1
        assert circuit.failures < FAILURES
        assert circuit.probing <= (circuit.until is not None)
        if circuit.until is not None and not circuit.probing:
            assert admit(circuit, now + OPEN_SECONDS)[1]
