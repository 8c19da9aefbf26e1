"""The two clocks, the seven checks in their order, and what delegation narrows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.onbe.grants.facts import (
    AGAIN,
    AGENT,
    ASK,
    CLOCKS,
    NOW,
    TASK,
    TOOL,
    code,
    minted,
    refreshed,
    span,
)

from keel.refusal import Refusal
from onbe.directory.model import Sponsor
from onbe.grants.decide import (
    claims,
    decide_exchange,
    decide_unended,
    is_resource,
    task_ttl,
    token_ttl,
)
from onbe.grants.model import Facts, Mint, Refresh, Status
from onbe.tokens.model import Person

# The two clocks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "lives"),
    [(None, span(30)), (span(22), span(22)), (span(seconds=1), span(1)), (timedelta(days=9), timedelta(days=1))],
)
def test_a_task_lives_as_its_agent_names_held_inside_todays_bounds(named: timedelta | None, lives: timedelta) -> None:
    assert task_ttl(replace(AGENT, max_task_ttl=named), CLOCKS) == lives
    mint = minted(decide_exchange(ASK, replace(AGENT, max_task_ttl=named), Person("ada", None), CLOCKS, NOW))
    assert mint.task_expires_at == NOW + lives


@pytest.mark.parametrize(
    ("named", "lives"),
    [(None, span(5)), (span(2), span(2)), (span(seconds=1), span(seconds=30)), (timedelta(days=9), span(60))],
)
def test_a_token_lives_as_its_agent_names_held_inside_todays_bounds(named: timedelta | None, lives: timedelta) -> None:
    assert token_ttl([replace(AGENT, max_token_ttl=named)], CLOCKS) == lives


def test_a_default_outside_the_bounds_is_held_inside_them_too() -> None:
    tight = replace(CLOCKS, task=(span(1), span(10)), token=(span(seconds=30), span(1)))
    assert task_ttl(AGENT, tight) == span(10)
    assert token_ttl([AGENT], tight) == span(1)


def test_the_last_token_of_a_22_minute_task_lives_two_minutes() -> None:
    agent = replace(AGENT, max_task_ttl=span(22))
    begun = minted(decide_exchange(ASK, agent, Person("ada", None), CLOCKS, NOW))
    task = replace(TASK, expires_at=begun.task_expires_at)
    lives = []
    for minutes in (0, 5, 10, 15, 20):
        now = NOW + span(minutes)
        mint = minted(refreshed(agent=agent, task=task, now=now))
        lives.append((mint.expires_at - now).total_seconds() / 60)
    assert lives == [5, 5, 5, 5, 2]


@pytest.mark.parametrize(
    ("left", "reason"),
    [(0, "task_expired"), (-1, "task_expired"), (0.001, "task_ending"), (5, "task_ending"), (5.001, None), (6, None)],
)
def test_with_five_seconds_or_less_left_no_token_is_given(left: float, reason: str | None) -> None:
    assert code(refreshed(now=TASK.expires_at - span(seconds=left))) == reason


@given(
    st.datetimes(datetime(2001, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.none() | st.timedeltas(span(seconds=1), timedelta(days=3)),
    st.none() | st.timedeltas(span(seconds=1), timedelta(days=3)),
    st.timedeltas(span(0), timedelta(days=3)),
)
def test_no_token_outlives_its_task_and_all_instants_are_whole_seconds(
    now: datetime, task: timedelta | None, token: timedelta | None, later: timedelta
) -> None:
    agent = replace(AGENT, max_task_ttl=task, max_token_ttl=token)
    begun = minted(decide_exchange(ASK, agent, Person("ada", None), CLOCKS, now))
    stored = replace(TASK, created_at=now, expires_at=begun.task_expires_at)
    again = refreshed(agent=agent, task=stored, now=now + later)
    for mint in [begun, again] if isinstance(again, Mint) else [begun]:
        assert mint.expires_at <= mint.task_expires_at == stored.expires_at
        assert {mint.expires_at.microsecond, mint.task_expires_at.microsecond, mint.issued_at.microsecond} == {0}
        assert span(seconds=4) < mint.expires_at - mint.issued_at <= span(60) + span(seconds=1)


# The checks of a refresh ---------------------------------------------------------------------------------------------

OTHER = replace(AGENT, agent_id="other")
FAILURES: list[tuple[str, dict[str, Any]]] = [
    ("grant_not_found", {"task": replace(TASK, agent="somebody")}),
    ("task_revoked", {"end": "revoked", "end_reason": "task_killed"}),
    ("task_expired", {"late": span(seconds=0)}),
    ("task_ending", {"late": span(seconds=5)}),
    ("sponsor_blocked", {"sponsor": Sponsor("ada", {"admin": {}})}),
    ("sponsor_disabled", {"status": "disabled"}),
    ("audience_mismatch", {"resource": "https://else.example"}),
    ("scope_widened", {"scope": ("read", "admin")}),
    ("agent_disabled", {"enabled": False}),
    ("scope_not_allowed", {"allowed_scopes": ("write",)}),
    ("audience_not_allowed", {"allowed_audiences": ("https://else.example",)}),
]
"""One failure for each check, in the order in which they are made."""


def failing(*failures: dict[str, Any]) -> Mint | Refusal:
    """A refresh at which all of these fail at once."""
    told: dict[str, Any] = {}
    for failure in reversed(failures):
        told.update(failure)
    task = told.get("task", TASK)
    task = replace(task, **{name: told[name] for name in ("end", "end_reason") if name in told})
    agent = replace(
        AGENT, **{name: told[name] for name in ("enabled", "allowed_scopes", "allowed_audiences") if name in told}
    )
    ask = Refresh("", "", told.get("resource"), told.get("scope"))
    now = task.expires_at - told["late"] if "late" in told else NOW
    return refreshed(ask, agent, task, told.get("sponsor"), told.get("status", "active"), now=now)


@pytest.mark.parametrize(("reason", "failure"), FAILURES)
def test_each_check_refuses_alone(reason: str, failure: dict[str, Any]) -> None:
    assert code(failing(failure)) == reason


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(range(len(FAILURES)), 2)))
def test_of_two_failures_the_earlier_check_is_reported(first: int, second: int) -> None:
    assert code(failing(FAILURES[first][1], FAILURES[second][1])) == FAILURES[first][0]


def test_a_refresh_at_which_everything_fails_reports_the_first() -> None:
    for first in range(len(FAILURES)):
        assert code(failing(*(failure for _, failure in FAILURES[first:]))) == FAILURES[first][0]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("disabled", "sponsor_disabled"),
        ("not_found", "sponsor_not_found"),
        ("unknown", "sponsor_status_unavailable"),
        ("active", None),
    ],
)
def test_only_a_yes_of_the_directory_is_a_yes(status: Status, reason: str | None) -> None:
    assert code(refreshed(status=status)) == reason


def test_a_grant_that_is_not_there_is_refused_like_a_strangers() -> None:
    assert code(refreshed(task=None)) == "grant_not_found"


def test_what_is_left_out_of_a_refresh_is_the_tasks_own() -> None:
    mint = minted(refreshed())
    assert (mint.audience, mint.scope) == (TASK.audience, TASK.scope)


@pytest.mark.parametrize("scope", [("read",), ("write", "read")])
def test_a_refresh_may_ask_for_less_and_gets_it_in_its_own_order(scope: tuple[str, ...]) -> None:
    assert minted(refreshed(replace(AGAIN, scope=scope))).scope == scope


@pytest.mark.parametrize(
    ("end", "end_reason", "reason"),
    [
        ("expired", None, "task_expired"),
        ("revoked", "task_killed", "task_revoked"),
        ("revoked", "revoked_by_agent", "task_revoked"),
        ("revoked", "parent_revoked", "parent_revoked"),
    ],
)
def test_an_end_is_told_as_what_it_was_also_later_and_after_the_clock_was_set_back(
    end: Any, end_reason: Any, reason: str
) -> None:
    ended = replace(TASK, end=end, end_reason=end_reason, ended_at=NOW)
    for now in (NOW - timedelta(days=1), NOW, TASK.expires_at, TASK.expires_at + timedelta(days=1)):
        assert code(refreshed(task=ended, now=now)) == reason


# An exchange ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "person", "allowed", "given_"),
    [
        (None, ("a", "b", "c"), ("c", "b"), ("b", "c")),
        (None, None, ("c", "b"), ("c", "b")),
        (("c", "a"), ("a", "b", "c"), ("c", "b", "a"), ("c", "a")),
        (("c", "x"), None, ("c",), ("c",)),
        (("c", "b"), ("b",), ("c", "b"), ("b",)),
        (("x",), None, ("c",), None),
        (("c",), (), ("c",), None),
        (None, ("x",), ("c",), None),
        ((), None, ("c",), None),
    ],
)
def test_the_scope_of_a_task_is_what_person_agent_and_request_have_in_common(
    asked: Any, person: Any, allowed: Any, given_: Any
) -> None:
    said = decide_exchange(
        replace(ASK, scope=asked), replace(AGENT, allowed_scopes=allowed), Person("ada", person), CLOCKS, NOW
    )
    if given_ is None:
        assert code(said) == "scope_empty"
    else:
        assert minted(said).scope == given_


def test_an_exchange_needs_an_agent_that_is_enabled_and_registered_for_the_resource() -> None:
    person = Person("ada", None)
    assert code(decide_exchange(ASK, replace(AGENT, enabled=False), person, CLOCKS, NOW)) == "agent_disabled"
    for resource in (TOOL + "/", TOOL.upper(), TOOL + ".evil", "https://tool"):
        said = decide_exchange(replace(ASK, resource=resource), AGENT, person, CLOCKS, NOW)
        assert code(said) == "audience_not_allowed", resource


def test_a_token_for_a_high_risk_audience_is_to_be_introspected() -> None:
    risky = replace(AGENT, high_risk_audiences=(TOOL,))
    for agent, told in ((AGENT, False), (risky, True)):
        mint = minted(decide_exchange(ASK, agent, Person("ada", None), CLOCKS, NOW))
        made = claims(mint, issuer="i", jti="j", task="t", sponsor="ada", agent="scribe", instance=None, chain=())
        assert made.get("introspect_required", False) is told


def test_what_was_ended_all_at_once_meanwhile_begins_nothing() -> None:
    other = NOW + span(1)
    sponsor = Sponsor("ada", {})
    assert decide_unended(Facts(AGENT, None), Facts(AGENT, sponsor)) is None
    for before, today in (
        (Facts(AGENT, None), Facts(replace(AGENT, tasks_ended_at=NOW), None)),
        (Facts(replace(AGENT, tasks_ended_at=other), None), Facts(replace(AGENT, tasks_ended_at=NOW), None)),
        (Facts(AGENT, None), Facts(AGENT, replace(sponsor, tasks_ended_at=NOW))),
        (Facts(AGENT, sponsor), Facts(AGENT, replace(sponsor, tasks_ended_at=NOW))),
    ):
        assert code(decide_unended(before, today)) == "task_revoked"


# Resources -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("https://tool.example", True),
        ("https://tool.example:8443/a/b?c=d&e=%20", True),
        ("urn:example:tool", True),
        ("https://[2001:db8::1]/", True),
        ("mcp+x.y-z:anything", True),
        ("https://tool.example#", False), ("https://tool.example/#a", False), ("tool.example", False), ("/a", False),
        ("", False), ("https:", False), ("1https://x", False), ("https://a b", False), ("https://a\n", False),
        ("https://ä.example", False), ("https://a\x00", False), ("://x", False), ("https://a\"b", False),
        ("https://a<b>", False), ("https://" + "x" * 2048, False), ("a:\\b", False), ("a:{b}", False),
        ("//tool.example", False), (" https://tool.example", False),
    ],
)  # fmt: skip
def test_a_resource_is_an_absolute_uri_without_a_fragment(text: str, taken: bool) -> None:
    assert is_resource(text) is taken
