"""A task token in the hands of another agent: everything narrows, and the parent's end is the child's."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.unit.onbe.grants.facts import AGENT, ASK, CLOCKS, NOW, TASK, TOOL, code, minted, refreshed, span

from keel.refusal import Refusal
from onbe.directory.model import Registration
from onbe.grants.decide import claims, decide_delegation, decide_parent
from onbe.grants.model import Exchange, Line, Mint
from onbe.tasks.decide import decide_alive
from onbe.tasks.model import EndReason
from onbe.tokens.model import Presented

HELPER = replace(AGENT, agent_id="helper", allowed_scopes=("read", "write", "more"))
BROUGHT = Presented("tok_1", "task_1", "scribe", ("read", "write"), NOW + span(5))
LINE = Line((TASK,), (AGENT,))


def delegated(
    ask: Exchange = ASK, agent: Registration = HELPER, brought: Presented = BROUGHT, line: Line = LINE,
    now: datetime = NOW,
) -> Mint | Refusal:  # fmt: skip
    return decide_parent(agent, line, now) or decide_delegation(ask, agent, brought, line, CLOCKS, now)


@pytest.mark.parametrize(
    ("agent", "brought", "task", "parent", "scope"),
    [
        ({}, {}, {}, {}, ("read", "write")),
        ({"allowed_scopes": ("write",)}, {}, {}, {}, ("write",)),
        ({}, {"scope": ("read",)}, {}, {}, ("read",)),
        ({}, {}, {"scope": ("write",)}, {}, ("write",)),
        ({}, {}, {}, {"allowed_scopes": ("read",)}, ("read",)),
    ],
)
def test_a_child_may_do_no_more_than_the_token_its_task_and_both_agents(
    agent: Any, brought: Any, task: Any, parent: Any, scope: tuple[str, ...]
) -> None:
    line = Line((replace(TASK, **task),), (replace(AGENT, **parent),))
    assert (
        minted(delegated(agent=replace(HELPER, **agent), brought=replace(BROUGHT, **brought), line=line)).scope == scope
    )
    assert code(delegated(replace(ASK, scope=("more",)), replace(HELPER, **agent), line=line)) == "scope_empty"


def test_a_childs_audience_is_one_that_every_agent_on_the_way_is_registered_for() -> None:
    both, only = ("https://two.example", TOOL), (TOOL,)
    two = replace(ASK, resource="https://two.example")
    wide = Line((TASK,), (replace(AGENT, allowed_audiences=both),))
    assert minted(delegated(two, replace(HELPER, allowed_audiences=both), line=wide)).audience == "https://two.example"
    assert code(delegated(two, replace(HELPER, allowed_audiences=both))) == "audience_not_allowed"
    assert code(delegated(two, replace(HELPER, allowed_audiences=only), line=wide)) == "audience_not_allowed"


@pytest.mark.parametrize(
    ("child", "parent", "depth", "reason"),
    [(2, 2, 1, None), (1, 2, 1, "delegation_too_deep"), (2, 1, 1, "delegation_too_deep"), (5, 5, 4, None),
     (5, 5, 5, "delegation_too_deep"), (3, 2, 2, "delegation_too_deep")],
)  # fmt: skip
def test_a_delegation_is_no_deeper_than_every_agent_on_the_way_allows(
    child: int, parent: int, depth: int, reason: str | None
) -> None:
    line = Line((replace(TASK, depth=depth),), (replace(AGENT, max_delegation_depth=parent),))
    assert code(delegated(agent=replace(HELPER, max_delegation_depth=child), line=line)) == reason


def test_neither_clock_of_a_child_runs_longer_than_its_parents() -> None:
    long = replace(HELPER, max_task_ttl=timedelta(hours=9), max_token_ttl=span(60))
    mint = minted(delegated(agent=long, now=NOW + span(1)))
    assert mint.task_expires_at == TASK.expires_at
    assert mint.expires_at == NOW + span(6)
    short = replace(HELPER, max_task_ttl=span(2), max_token_ttl=span(1))
    mint = minted(delegated(agent=short))
    assert (mint.task_expires_at, mint.expires_at) == (NOW + span(2), NOW + span(1))
    assert code(delegated(now=TASK.expires_at - span(seconds=5))) == "task_ending"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"end": "revoked", "end_reason": "task_killed"}, "parent_revoked"),
        ({"end": "revoked", "end_reason": "parent_revoked"}, "parent_revoked"),
        ({"end": "expired"}, "task_expired"),
        ({"expires_at": NOW}, "task_expired"),
        ({"agent": "helper"}, "delegation_to_itself"),
    ],
)
def test_a_parent_that_is_over_or_ones_own_has_no_child(changes: Any, reason: str) -> None:
    assert code(delegated(line=Line((replace(TASK, **changes),), (AGENT,)))) == reason


def test_an_agent_on_the_way_that_is_disabled_stops_everything_below_it() -> None:
    assert code(delegated(line=Line((TASK,), (replace(AGENT, enabled=False),)))) == "agent_disabled"
    child = replace(TASK, id="task_2", agent="helper", parent="task_1", depth=2)
    for changes, reason in (
        ({"enabled": False}, "agent_disabled"),
        ({"allowed_scopes": ("read",)}, "scope_not_allowed"),
        ({"allowed_audiences": ("https://x",)}, "audience_not_allowed"),
        ({"max_delegation_depth": 1}, "delegation_too_deep"),
    ):
        line = Line((TASK,), (replace(AGENT, **changes),))
        assert code(refreshed(agent=HELPER, task=child, line=line)) == reason
    assert code(refreshed(agent=HELPER, task=child, line=Line((TASK,), ()))) == "delegation_too_deep"


def test_the_end_of_any_task_on_the_way_is_the_end_of_all_below_it() -> None:
    reasons: list[EndReason] = ["task_killed", "parent_revoked", "sponsor_blocked"]
    for reason in reasons:
        over = replace(TASK, id="task_0", end="revoked", end_reason=reason)
        assert code(decide_alive(TASK, (replace(TASK, id="task_9"), over), NOW)) == "parent_revoked"
    assert code(decide_alive(TASK, (replace(TASK, end="expired"),), NOW)) == "task_expired"
    assert code(decide_alive(TASK, (replace(TASK, expires_at=NOW),), NOW)) == "task_expired"
    assert code(decide_alive(TASK, (replace(TASK, expires_at=NOW + span(seconds=5)),), NOW)) == "task_ending"


def test_the_actor_who_acts_now_is_outermost_and_each_has_its_depth() -> None:
    parent, root = replace(TASK, agent="b", instance="b-1"), replace(TASK, agent="a")
    mint = minted(delegated())
    made = claims(mint, issuer="i", jti="j", task="t", sponsor="ada", agent="c", instance="c-1", chain=(parent, root))
    assert made["act"] == {
        "sub": "c", "depth": 3, "instance": "c-1",
        "act": {"sub": "b", "depth": 2, "instance": "b-1", "act": {"sub": "a", "depth": 1}},
    }  # fmt: skip
    assert (made["sub"], made["client_id"], made["task"]["sponsor"]) == ("ada", "c", "ada")
