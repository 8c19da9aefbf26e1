"""When a token is used, renewed, waited for or given up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbe_client.answers import Issued
from onbe_client.errors import AgentUnknown, BadAnswer, Over, ScopeRefused, TaskRevoked, Unavailable
from onbe_client.renewal import Early, Fail, Hold, Renew, Renewals, Use, backoff

ISSUED = Issued(
    access_token="t0", expires_in=30.0, scope=("a",), task_id="task_1", task_expires_at=None, task_left=600.0, grant="g"
)
AWAY = Unavailable("temporarily_unavailable", status=503)


def held(at: float = 0.0) -> Renewals:
    renewals = Renewals("task_1")
    renewals.succeeded(ISSUED, at)
    return renewals


def test_a_token_is_renewed_at_six_tenths_of_its_life() -> None:
    renewals = held()
    assert renewals.advise(17.999) == Use("t0")
    assert renewals.advise(18.0) == Early("t0")


def test_a_token_with_five_seconds_left_is_not_handed_out() -> None:
    renewals = held()
    assert renewals.advise(24.99) == Early("t0")
    assert renewals.advise(25.0) == Renew()
    assert renewals.still_good(25.0) is None


def test_the_life_of_a_token_is_counted_from_its_request() -> None:
    assert held(at=100.0).good_until == 130.0


def test_a_renewal_that_fails_leaves_the_good_token_and_is_tried_again_later() -> None:
    renewals = held()
    renewals.failed(AWAY, 18.0, 1.0)
    assert renewals.advise(18.5) == Use("t0")
    assert renewals.advise(19.0) == Early("t0")


def test_without_a_token_what_may_be_retried_is_waited_for() -> None:
    renewals = held()
    renewals.failed(AWAY, 26.0, 1.0)
    hold = renewals.advise(26.25)
    assert isinstance(hold, Hold)
    assert (hold.seconds, hold.error.error) == (0.75, "temporarily_unavailable")


def test_without_a_token_what_is_refused_is_told_at_once_and_asked_again_only_later() -> None:
    renewals = Renewals("task_1")
    renewals.failed(AgentUnknown("invalid_client", status=401), 0.0, 1.0)
    assert isinstance(renewals.advise(0.5), Fail)
    assert renewals.advise(1.0) == Renew()


def test_what_is_over_stays_over_also_with_a_good_token_in_hand() -> None:
    renewals = held()
    renewals.failed(TaskRevoked("access_denied", reason="task_revoked"), 18.0, 0.0)
    renewals.failed(AWAY, 19.0, 0.0)
    advice = renewals.advise(19.0)
    assert isinstance(advice, Fail)
    assert isinstance(advice.error, TaskRevoked)
    assert renewals.still_good(19.0) is None


def test_a_refused_scope_is_over_until_less_is_granted() -> None:
    renewals = held()
    renewals.failed(ScopeRefused("invalid_scope", status=400), 18.0, 0.0)
    assert isinstance(renewals.advise(18.0), Fail)
    renewals.succeeded(ISSUED, 20.0)
    assert renewals.advise(20.0) == Use("t0")


def test_a_token_that_lives_as_long_as_its_task_is_the_last_and_is_not_renewed() -> None:
    renewals = Renewals("task_1")
    renewals.succeeded(replace(ISSUED, expires_in=120.0, task_left=120.0), 0.0)
    assert renewals.advise(114.0) == Use("t0")
    ended = renewals.advise(116.0)
    assert isinstance(ended, Fail)
    assert isinstance(ended.error, Over)
    assert ended.error.reason == "task_ending"


def test_a_token_of_another_task_is_never_taken() -> None:
    renewals = held()
    with pytest.raises(BadAnswer):
        renewals.succeeded(replace(ISSUED, task_id="task_2", access_token="other"), 18.0)
    assert renewals.advise(18.0) == Early("t0")


def test_each_caller_raises_an_error_of_its_own() -> None:
    renewals = held()
    renewals.end(TaskRevoked("access_denied", reason="task_revoked"))
    one, two = renewals.advise(1.0), renewals.advise(1.0)
    assert isinstance(one, Fail)
    assert isinstance(two, Fail)
    assert one.error is not two.error
    assert str(one.error) == str(two.error)


@given(
    failures=st.integers(0, 10_000),
    chance=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats(0, 1e9),
)
def test_two_tries_are_one_to_sixty_seconds_apart(failures: int, chance: float, asked: float | None) -> None:
    pause = backoff(failures, chance, asked)
    assert 1.0 <= pause <= 60.0
    assert pause >= min(60.0, asked or 0.0)


@given(chance=st.floats(0, 1, exclude_max=True))
def test_pauses_grow_to_the_longest_whatever_chance_says(chance: float) -> None:
    pauses = [backoff(failures, chance) for failures in range(1, 9)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 30.0


steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 40)),
        st.tuples(st.just("came"), st.floats(5.001, 3600)),
        st.tuples(st.just("away"), st.floats(0, 1)),
        st.tuples(st.just("refused"), st.floats(0, 1)),
    ),
    max_size=60,
)


@given(steps, st.floats(60, 4000))
def test_no_token_is_given_with_five_seconds_or_less_left_or_asked_for_too_often(
    played: list[tuple[str, float]], task_left: float
) -> None:
    """Whatever comes in whatever order: also with a task that ends, and answers that were slow."""
    renewals, now, good_until, last_failure = Renewals("task_1"), 1000.0, 0.0, -1.0
    for kind, value in played:
        if kind == "pass":
            now += value
        elif kind == "came":
            good_until = now + value
            renewals.succeeded(replace(ISSUED, expires_in=value, task_left=max(task_left, value)), now)
            last_failure = -1.0
        else:
            error = AWAY if kind == "away" else AgentUnknown("invalid_client")
            renewals.failed(error, now, min(value, 0.999))
            last_failure = now
        advice = renewals.advise(now)
        if isinstance(advice, Use | Early):
            assert good_until - now > 5.0
        if isinstance(advice, Hold):
            assert 0 < advice.seconds <= 60.0
        if isinstance(advice, Early | Renew) and last_failure >= 0:
            assert now - last_failure >= 0.999
