"""Logins and accounts under whatever order of steps: what is kept here agrees with what is true at GitHub.

The machine plays people who log in, type codes, refuse, disconnect, install, connect, enable; GitHub that suspends,
removes, goes away; and a clock that moves. After every step each account is of one organization, each token that is
given acts as who it says, and nobody who was put out has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.behaviour.github.hub import Hub, hub_of
from tests.unit.people.house import act, house

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.drivers.github.fake import FakeGitHub
from rift.github.model import Connected, Install
from rift.logins import actions as logins
from rift.logins.model import Person, Step
from rift.people import actions as people
from rift.people.actions import operator

Result = TypeVar("Result")
WHO = st.sampled_from(["ada", "grace"])
ORGS = {"ada": "acme", "grace": "hopper"}
ACCOUNTS = st.sampled_from(["acme-inc", "labs"])


class Bench:
    """One Rift for all runs, each of which finds it with nothing of GitHub's."""

    def __init__(self, database: FreshDatabase, data: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._owner = psycopg.connect(database.owner, autocommit=True)
        self.hub = self.run(self._start(database, data))

    async def _start(self, database: FreshDatabase, data: Path) -> Hub:
        return await hub_of(await self._stack.enter_async_context(house(database, data, FakeClock())))

    def run(self, step: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(step)

    def fresh(self) -> Hub:
        for table in ("github_accounts", "github_users", "github_logins", "github_connects", "procrastinate_jobs"):
            self._owner.execute(f"DELETE FROM {table}".encode())
        self._owner.execute("UPDATE users SET disabled_at = NULL")
        self.hub = replace(self.hub, deps=replace(self.hub.deps, github=FakeGitHub(self.hub.clock)))
        for name, who in (("acme-inc", "ada"), ("labs", "grace")):
            self.hub.github.account(name, "Organization")
            self.hub.github.owners[name] = {who, "both"}
            for one in (who, "both"):
                self.hub.github.account(one)
                self.hub.github.members.setdefault(one, set()).add(name)
        return self.hub

    def close(self) -> None:
        self.run(self._stack.aclose())
        self._owner.close()
        self._runner.close()


class Machine(RuleBasedStateMachine):
    bench: Bench

    def __init__(self) -> None:
        super().__init__()
        self.hub = self.bench.fresh()
        self.run = self.bench.run
        self.codes: dict[str, str] = {}

    def who(self, name: str):  # type: ignore[no-untyped-def] # a Caller
        return getattr(self.hub, name)

    @rule(name=WHO, at=st.sampled_from(["ada", "grace", "both", "denied"]))
    def answers(self, name: str, at: str) -> None:
        if name in self.codes and any(one.user_code == self.codes[name] for one in self.hub.github.logins.values()):
            self.hub.github.answer(self.codes[name], at)

    @rule(name=WHO, times=st.integers(1, 4))
    def logs_in(self, name: str, times: int) -> None:
        many = self.run(self._many([self.hub.login(self.who(name)) for _ in range(times)]))
        for step in many:
            assert isinstance(step, Step | Refusal)
            if isinstance(step, Step) and step.status == "begun":
                self.codes[name] = step.code

    @rule(name=WHO, times=st.integers(1, 4))
    def acts(self, name: str, times: int) -> None:
        """Whoever needs a token at once gets one that is good, and the same, or learns why not."""
        many = self.run(self._many([logins.person_token(self.hub.deps, self.who(name).user) for _ in range(times)]))
        tokens = {one.token for one in many if isinstance(one, Person)}
        assert len(tokens) <= 1
        for one in many:
            if isinstance(one, Person):
                grant = self.hub.github.grants[one.token]
                assert (grant.login, grant.good, grant.expires_at > self.hub.clock.now()) == (one.login, True, True)

    @rule(name=WHO)
    def disconnects(self, name: str) -> None:
        self.run(logins.disconnect(self.hub.deps, act(self.who(name))))

    @rule(name=WHO, account=ACCOUNTS)
    def connects(self, name: str, account: str) -> None:
        hub = self.hub
        done = self.run(hub.connect(self.who(name), ORGS[name]))
        if isinstance(done, Install):
            there = [one.id for one in hub.github.installs.values() if one.account.login == account]
            state = done.url.partition("state=")[2]
            at = next(iter(hub.github.owners[account] - {"both"}))
            back = self.run(hub.back(self.who(name), state, at, there[0] if there else None))
            if isinstance(back, Connected):
                assert back.account.login == account

    @rule(account=ACCOUNTS)
    def two_connect_one_account_at_once(self, account: str) -> None:
        hub = self.hub
        begun = [self.run(hub.connect(self.who(name), ORGS[name])) for name in ORGS]
        there = [one.id for one in hub.github.installs.values() if one.account.login == account]
        if there and all(isinstance(one, Install) for one in begun):
            states = [one.url.partition("state=")[2] for one in begun if isinstance(one, Install)]
            both = [hub.back(self.who(name), state, "both", there[0]) for name, state in zip(ORGS, states, strict=True)]
            done = self.run(self._many(both))
            assert sum(isinstance(one, Connected) for one in done) <= 1

    @rule(account=ACCOUNTS)
    def is_installed(self, account: str) -> None:
        if not any(one.account.login == account for one in self.hub.github.installs.values()):
            self.hub.github.install(account, "Organization")

    @rule(account=ACCOUNTS)
    def is_removed(self, account: str) -> None:
        for one in list(self.hub.github.installs.values()):
            if one.account.login == account:
                self.hub.github.uninstall(one.id)

    @rule(name=WHO, account=ACCOUNTS)
    def enables(self, name: str, account: str) -> None:
        self.run(self.hub.enable(self.who(name), ORGS[name], account))

    @rule(seconds=st.sampled_from([1, 5, 10, 600, 29_000]))
    def time_passes(self, seconds: int) -> None:
        self.hub.clock.advance(timedelta(seconds=seconds))

    @rule(down=st.booleans())
    def github_goes_and_comes(self, down: bool) -> None:
        self.hub.github.down = down

    @rule()
    def grace_is_put_out_and_let_in_again(self) -> None:
        told = operator(self.hub.deps, "rift user disable", {})
        self.run(people.disable(self.hub.deps, told, "grace@example.org"))
        assert isinstance(self.run(logins.person_token(self.hub.deps, self.hub.grace.user)), Refusal)
        self.run(logins.end_put_out(self.hub.deps))
        self.run(people.enable(self.hub.deps, told, "grace@example.org"))

    @invariant()
    def what_is_kept_agrees(self) -> None:
        rows = self.run(self.hub.rows("SELECT * FROM github_accounts WHERE removed_at IS NULL"))
        assert len({row["account_id"] for row in rows}) == len(rows)
        for row in rows:
            assert row["kind"] == "Organization"
        kept = self.run(self.hub.rows("SELECT * FROM github_users"))
        assert {row["login"] for row in kept} <= {"ada", "grace", "both"}

    async def _many(self, steps: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        return list(await asyncio.gather(*steps))


@pytest.fixture
def bench(database: FreshDatabase, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(database, tmp_path)
    yield made
    made.close()


def test_whatever_people_and_github_do_in_whatever_order(bench: Bench) -> None:
    Machine.bench = bench
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=12, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
