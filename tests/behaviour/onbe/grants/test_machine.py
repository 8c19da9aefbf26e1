"""Exchange, refresh, narrow, delegate, revoke, kill, block, disable, expire, and clocks that jump, in any order.

The model knows a few plain rules and says of every request whether it may be given; the live Onbe must say the same.
Whatever it gives is held against what nothing may do: no token outlives its task, no scope grows, nothing acts after
its end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from tests.behaviour.onbe.world import TOOL, World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.tasks import actions as tasks

T = TypeVar("T")
ALL = ("a", "b", "c")
SCOPES = st.sampled_from([None, None, ("a",), ("b", "a"), ("c",), ("a", "b", "c"), ("c", "x")])
AGENTS, PERSONS = st.integers(0, 2), st.integers(0, 1)
DEPTHS = (3, 3, 2)
NUMBERS = itertools.count()


@dataclass
class Known:
    """A task as the model knows it."""

    id: str
    agent: int
    person: int
    scope: tuple[str, ...]
    expires: datetime
    parent: Known | None
    depth: int
    grant: str
    token: str
    token_scope: tuple[str, ...] = ()
    token_expires: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    over: bool = False

    @property
    def line(self) -> list[Known]:
        return [self, *(self.parent.line if self.parent else [])]


class Machine(RuleBasedStateMachine):
    """One live Onbe, three agents, two persons."""

    database: FreshDatabase

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.number = next(NUMBERS)
        self.known: list[Known] = []
        self.enabled = [True] * 3
        self.allowed: list[tuple[str, ...]] = [ALL] * 3
        self.active, self.blocked = [True] * 2, [False] * 2
        self.stack = AsyncExitStack()
        self.clock = FakeClock()
        self.world: World = self.do(self.stack.enter_async_context(world_of(self.database, self.clock)))
        for agent in range(3):
            columns: dict[str, Any] = {
                "allowed_scopes": list(ALL),
                "max_delegation_depth": DEPTHS[agent],
                "max_task_ttl": timedelta(minutes=(6, 4, 10)[agent]),
                "max_token_ttl": timedelta(minutes=(5, 3, 9)[agent]),
            }
            self.do(self.world.register(self.agent(agent), **columns))
        for person in range(2):
            self.world.person(self.person(person))

    def teardown(self) -> None:
        self.do(self.stack.aclose())
        self.runner.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def agent(self, n: int) -> str:
        return f"agent-{self.number}-{n}"

    def person(self, n: int) -> str:
        return f"person-{self.number}-{n}"

    # What the model says

    def person_may(self, person: int) -> bool:
        return self.active[person] and not self.blocked[person]

    def lives(self, task: Known) -> bool:
        least = self.clock.now() + timedelta(seconds=5)
        return all(not one.over and one.expires > least for one in task.line)

    def meets(self, asked: tuple[str, ...] | None, *limits: tuple[str, ...]) -> set[str]:
        said = set(ALL) if asked is None else set(asked)
        return said.intersection(*limits)

    # What is asked

    @rule(agent=AGENTS, person=PERSONS, scope=SCOPES)
    def exchange(self, agent: int, person: int, scope: tuple[str, ...] | None) -> None:
        subject = self.world.subject(self.person(person), scope="a b c")
        form: dict[str, Any] = {"scope": " ".join(scope) if scope else None, "subject_token": subject}
        answer = self.do(self.world.exchange(self.agent(agent), **form))
        meant = self.meets(scope, self.allowed[agent])
        may = self.person_may(person) and self.enabled[agent] and bool(meant)
        assert (answer.status_code == 200) is may, answer.text
        if may:
            given = answer.json()
            assert set(given["scope"].split()) == meant
            self.known.append(self.learn(given, agent, person, None))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), scope=SCOPES, child=AGENTS)
    def narrow_and_delegate(self, data: st.DataObject, scope: tuple[str, ...] | None, child: int) -> None:
        """A token with less than its task has, in the hands of another."""
        task = data.draw(st.sampled_from(self.known))
        self.refreshed(task, scope)
        self.delegated(task, child, None)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), scope=SCOPES)
    def refresh(self, data: st.DataObject, scope: tuple[str, ...] | None) -> None:
        self.refreshed(data.draw(st.sampled_from(self.known)), scope)

    def refreshed(self, task: Known, scope: tuple[str, ...] | None) -> None:
        form = {"scope": " ".join(scope) if scope else None}
        answer = self.do(self.world.refresh(self.agent(task.agent), task.grant, **form))
        meant = set(task.scope if scope is None else scope)
        may = self.lives(task) and self.person_may(task.person) and meant <= set(task.scope)
        may = may and all(self.enabled[one.agent] and meant <= set(self.allowed[one.agent]) for one in task.line)
        assert (answer.status_code == 200) is may, (answer.text, task)
        if may:
            self.hold(task, answer.json())

    @precondition(lambda self: self.known)
    @rule(data=st.data(), agent=AGENTS)
    def steal(self, data: st.DataObject, agent: int) -> None:
        task = data.draw(st.sampled_from(self.known))
        if agent != task.agent:
            answer = self.do(self.world.refresh(self.agent(agent), task.grant))
            assert answer.json()["error"] == "invalid_grant"

    @precondition(lambda self: self.known)
    @rule(data=st.data(), agent=AGENTS, scope=SCOPES)
    def delegate(self, data: st.DataObject, agent: int, scope: tuple[str, ...] | None) -> None:
        self.delegated(data.draw(st.sampled_from(self.known)), agent, scope)

    def delegated(self, parent: Known, agent: int, scope: tuple[str, ...] | None) -> None:
        answer = self.do(self.world.delegate(self.agent(agent), parent.token, scope=" ".join(scope) if scope else None))
        every = {agent, *(one.agent for one in parent.line)}
        meant = self.meets(scope, parent.token_scope, parent.scope, *(self.allowed[one] for one in every))
        may = self.lives(parent) and self.person_may(parent.person) and agent != parent.agent and bool(meant)
        may = may and parent.token_expires > self.clock.now()
        may = may and all(self.enabled[one] and parent.depth + 1 <= DEPTHS[one] for one in every)
        assert (answer.status_code == 200) is may, (answer.text, parent)
        if may:
            assert set(answer.json()["scope"].split()) == meant
            self.known.append(self.learn(answer.json(), agent, parent.person, parent))

    # What happens

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.known))
        self.do(tasks.end_task(self.world.deps, task.id))
        self.end(task)

    @rule(agent=AGENTS)
    def kill_agent(self, agent: int) -> None:
        self.do(tasks.end_tasks_of_agent(self.world.deps, self.agent(agent)))
        for task in self.known:
            if task.agent == agent:
                self.end(task)

    @rule(person=PERSONS)
    def kill_person(self, person: int) -> None:
        self.do(tasks.end_tasks_of_sponsor(self.world.deps, self.person(person)))
        for task in self.known:
            task.over |= task.person == person

    @rule(person=PERSONS, blocks=st.sampled_from([False, False, True]))
    def block(self, person: int, blocks: bool) -> None:
        if blocks:
            self.do(tasks.block(self.world.deps, self.person(person), "left"))
            for task in self.known:
                task.over |= task.person == person
        else:
            self.do(tasks.unblock(self.world.deps, self.person(person)))
        self.blocked[person] = blocks

    @rule(person=PERSONS, state=st.sampled_from(["active", "active", "active", "disabled", "not_found"]))
    def disable_person(self, person: int, state: str) -> None:
        self.world.person(self.person(person), state)
        self.active[person] = state == "active"

    @rule(
        agent=AGENTS,
        enabled=st.sampled_from([True, True, True, False]),
        allowed=st.sampled_from([ALL, ALL, ("a", "b"), ("c",)]),
    )
    def change_agent(self, agent: int, enabled: bool, allowed: tuple[str, ...]) -> None:
        self.enabled[agent], self.allowed[agent] = enabled, allowed
        self.do(
            self.world.sql(
                "UPDATE agents SET enabled = %(enabled)s, allowed_scopes = %(allowed)s WHERE agent_id = %(agent)s",
                enabled=enabled, allowed=list(allowed), agent=self.agent(agent),
            )
        )  # fmt: skip

    @rule()
    def sweep(self) -> None:
        self.do(tasks.sweep(self.world.deps))
        for task in self.known:
            task.over |= task.expires <= self.clock.now()

    @rule(seconds=st.sampled_from([0.25, 1, 30, 59.5, 115, 180, 235]))
    def time_goes_on(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(minutes=st.sampled_from([-600, -4, -0.5, 0.5, 2, 45]))
    def clock_jumps(self, minutes: float) -> None:
        self.clock.set(self.clock.now() + timedelta(minutes=minutes))

    # What must hold

    def end(self, task: Known) -> None:
        """A task that ends takes all below it along; one that had expired is over too."""
        for one in self.known:
            one.over |= task in one.line

    def learn(self, given: dict[str, Any], agent: int, person: int, parent: Known | None) -> Known:
        claims = self.world.claims(given)
        task = Known(
            given["task_id"], agent, person, tuple(given["scope"].split()), at(claims["task"]["exp"]), parent,
            parent.depth + 1 if parent else 1, given["refresh_token"], given["access_token"],
        )  # fmt: skip
        if parent is not None:
            assert set(task.scope) <= set(parent.scope)
            assert task.expires <= parent.expires
        self.hold(task, given)
        return task

    def hold(self, task: Known, given: dict[str, Any]) -> None:
        """A token was given: hold it against its task and all above it."""
        claims = self.world.claims(given)
        now = self.clock.now()
        task.token, task.token_scope = given["access_token"], tuple(claims["scope"].split())
        task.token_expires = at(claims["exp"])
        assert claims["task"] == {
            "id": task.id, "exp": int(task.expires.timestamp()), "sponsor": self.person(task.person),
        }  # fmt: skip
        assert set(task.token_scope) <= set(task.scope)
        assert all(task.token_expires <= one.expires and not one.over for one in task.line)
        assert now < task.token_expires <= now + timedelta(minutes=9)
        assert 0 < given["expires_in"] <= (task.token_expires - now).total_seconds()
        act: Any = claims["act"]
        for one, depth in zip(task.line, range(task.depth, 0, -1), strict=True):
            assert (act["sub"], act["depth"]) == (self.agent(one.agent), depth)
            act = act.get("act")
        assert act is None
        assert claims["aud"] == TOOL

    @invariant()
    def every_request_is_one_record_or_counted(self) -> None:
        alive = self.do(
            self.world.rows(
                'SELECT id, scope, expires_at, "end" FROM tasks WHERE sponsor LIKE %(mine)s',
                mine=f"person-{self.number}-%",
            )
        )
        stored = {row["id"]: row for row in alive}
        assert stored.keys() == {task.id for task in self.known}
        for task in self.known:
            assert tuple(stored[task.id]["scope"]) == task.scope
            assert stored[task.id]["expires_at"] == task.expires
            assert (stored[task.id]["end"] is not None) is task.over, task


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_nothing_outlives_widens_or_acts_after_its_end_whatever_happens_in_whatever_order(
    onbe_database: FreshDatabase,
) -> None:
    class Here(Machine):
        database = onbe_database

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
