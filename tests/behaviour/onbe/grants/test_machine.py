"""Exchange, refresh, narrow, delegate, revoke, kill, block, disable, expire, and clocks that jump, in any order.

The model knows a few plain rules and says of every request whether it may be given; the live Onbe must say the same.
Whatever it gives is held against what nothing may do: no token outlives its task, no scope grows, nothing acts after
its end.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.behaviour.onbe.world import TOOL, World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.tasks import actions as tasks

T = TypeVar("T")
ALL = ("a", "b", "c")
SCOPES = st.sampled_from([None, None, ("a",), ("b", "a"), ("c",), ("a", "b", "c"), ("c", "x")])
AGENTS, PERSONS = st.integers(0, 2), st.integers(0, 1)
DEPTHS = (3, 3, 2)
PAUSES = st.sampled_from([0, 0, 0.25, 20, 59.5, 115, 180])
ENDS = ("task", "task", "agent", "person", "block", "disable", "disable", "gone", "change", "off", "off")
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

    @rule(data=st.data(), scope=SCOPES, agent=AGENTS, person=PERSONS)
    def somebody_works(self, data: st.DataObject, scope: tuple[str, ...] | None, agent: int, person: int) -> None:
        """One rule for all that is asked: hypothesis leaves whole rules out of many runs."""
        self.clock.advance(data.draw(PAUSES))
        what = data.draw(st.sampled_from(["exchange", "refresh", "refresh", "late", "delegate", "narrow", "steal"]))
        if what == "exchange" or not self.known:
            self.exchanged(agent, person, scope)
            return
        task = self.some(data)
        other = agent if agent != task.agent else (agent + 1) % 3
        if what == "late":  # just before its end, at it, or just after
            left = task.expires - self.clock.now() - timedelta(seconds=data.draw(st.sampled_from([6, 5, 4, 0])))
            self.clock.advance(max(left, timedelta(0)))
        if what in ("refresh", "late"):
            self.refreshed(task, scope)
        elif what == "delegate":
            self.delegated(task, agent, scope)
        elif what == "narrow":
            self.refreshed(task, scope)  # a token with less than its task has, in the hands of another
            self.delegated(task, other, None)
        else:
            answer = self.do(self.world.refresh(self.agent(other), task.grant))
            assert answer.json()["error"] == "invalid_grant"

    def exchanged(self, agent: int, person: int, scope: tuple[str, ...] | None) -> None:
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

    def refreshed(self, task: Known, scope: tuple[str, ...] | None) -> None:
        form = {"scope": " ".join(scope) if scope else None}
        answer = self.do(self.world.refresh(self.agent(task.agent), task.grant, **form))
        meant = set(task.scope if scope is None else scope)
        may = self.lives(task) and self.person_may(task.person) and meant <= set(task.scope)
        may = may and all(self.enabled[one.agent] and meant <= set(self.allowed[one.agent]) for one in task.line)
        assert (answer.status_code == 200) is may, (answer.text, task)
        if may:
            self.hold(task, answer.json())

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

    @rule(data=st.data(), agent=AGENTS, person=PERSONS)
    def something_ends(self, data: st.DataObject, agent: int, person: int) -> None:
        what = data.draw(st.sampled_from(ENDS))
        if what == "task" and self.known:
            task = self.some(data)
            self.do(tasks.end_task(self.world.deps, task.id))
            self.end(lambda one: task in one.line)
        elif what == "agent":
            self.do(tasks.end_tasks_of_agent(self.world.deps, self.agent(agent)))
            self.end(lambda one: any(up.agent == agent for up in one.line))
        elif what == "person":
            self.do(tasks.end_tasks_of_sponsor(self.world.deps, self.person(person)))
            self.end(lambda one: one.person == person)
        elif what == "block":
            self.do(tasks.block(self.world.deps, self.person(person), "left"))
            self.end(lambda one: one.person == person)
            self.blocked[person] = True
        elif what == "off":
            self.change(agent, False, ALL)
        elif what == "change":
            self.change(agent, data.draw(st.booleans()), data.draw(st.sampled_from([ALL, ("a", "b"), ("c",)])))
        else:
            self.world.person(self.person(person), "disabled" if what == "disable" else "not_found")
            self.active[person] = False

    @rule()
    def all_is_well_again(self) -> None:
        for person in range(2):
            if self.blocked[person]:
                self.do(tasks.unblock(self.world.deps, self.person(person)))
            self.world.person(self.person(person))
        self.active, self.blocked = [True] * 2, [False] * 2
        for agent in range(3):
            self.change(agent, True, ALL)

    def change(self, agent: int, enabled: bool, allowed: tuple[str, ...]) -> None:
        self.enabled[agent], self.allowed[agent] = enabled, allowed
        self.do(
            self.world.sql(
                "UPDATE agents SET enabled = %(enabled)s, allowed_scopes = %(allowed)s WHERE agent_id = %(agent)s",
                enabled=enabled, allowed=list(allowed), agent=self.agent(agent),
            )
        )  # fmt: skip

    @rule(seconds=PAUSES, sweeps=st.booleans(), jumps=st.sampled_from([0, -600, -120, -1, 90]))
    def time_goes_on(self, seconds: float, sweeps: bool, jumps: float) -> None:
        self.clock.advance(seconds)
        if sweeps:
            self.do(tasks.sweep(self.world.deps))
            self.end(lambda one: one.expires <= self.clock.now())
        self.clock.set(self.clock.now() + timedelta(seconds=jumps))

    # What must hold

    def end(self, whose: Callable[[Known], bool]) -> None:
        for one in self.known:
            one.over |= whose(one)

    def some(self, data: st.DataObject) -> Known:
        """A task, mostly one that lives."""
        alive = [task for task in self.known if self.lives(task)]
        only_alive = bool(alive) and data.draw(st.sampled_from([True, True, True, False]))
        return data.draw(st.sampled_from(alive if only_alive else self.known))

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
            max_examples=30, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
