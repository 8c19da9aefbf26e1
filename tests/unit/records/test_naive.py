"""Whatever people, teams, roles, tasks, boxes and records there are: a page shows exactly what a naive model says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.unit.people.house import house
from tests.unit.records.world import World, signed_in

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.records import actions, store
from rift.records.model import Asked, Place

PEOPLE, TEAMS, TASKS, BOXES = 3, 2, 3, 4
NO_SHRINK = (Phase.explicit, Phase.reuse, Phase.generate)
"""A house that fails is told as it is: each smaller one would be built in the database first, for minutes."""
ROLES = st.sampled_from((None, "member", "admin"))
ACTIONS, OUTCOMES = ("rift_bash", "rift_read", "web look"), ("ok", "error", "task_held")


@dataclass(frozen=True)
class Drawn:
    """A record, by the numbers of what it names."""

    actor: int | None
    task: int | None
    box: int | None
    action: str
    outcome: str
    wait: int
    """Seconds after the one before; none: the same instant."""


def some(most: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.integers(0, most - 1))


RECORDS = st.lists(
    st.builds(
        Drawn, some(PEOPLE), some(TASKS), some(BOXES), st.sampled_from(ACTIONS), st.sampled_from(OUTCOMES),
        st.integers(0, 2),
    ),
    min_size=6,
    max_size=20,
)  # fmt: skip
HOUSE = st.fixed_dictionaries({
    "roles": st.lists(st.tuples(*[ROLES] * PEOPLE), min_size=TEAMS, max_size=TEAMS),
    "later": st.lists(st.tuples(*[ROLES] * PEOPLE), min_size=TEAMS, max_size=TEAMS),
    "owners": st.lists(st.integers(0, PEOPLE - 1), min_size=TASKS, max_size=TASKS),
    "boxes": st.lists(st.tuples(st.integers(0, TEAMS - 1), some(TASKS)), min_size=BOXES, max_size=BOXES),
    "admin": some(PEOPLE),
    "records": RECORDS,
    "asked": st.fixed_dictionaries({
        "task": some(TASKS), "box": some(BOXES), "actor": some(PEOPLE), "action": st.sampled_from((None, *ACTIONS)),
        "outcome": st.sampled_from((None, "refused", *OUTCOMES)), "since": st.sampled_from((None, 3)),
        "until": st.sampled_from((None, 9)),
    }),
})  # fmt: skip


class Naive:
    """One drawn house, in the database and in plain lists."""

    numbers = count()

    def __init__(self, world: World, drawn: dict[str, Any]) -> None:
        self.world, self.drawn, self.n = world, drawn, next(self.numbers)
        self.begin = world.at
        self.made: list[tuple[datetime, int, Drawn]] = []

    def named(self, kind: str, number: int | None) -> str | None:
        return None if number is None else f"{kind}{self.n}x{number}"

    async def make(self) -> None:
        world, drawn = self.world, self.drawn
        for person in range(PEOPLE):
            await world.person(f"p{self.n}x{person}", admin=person == drawn["admin"])
        for team in range(TEAMS):
            await world.team(f"t{self.n}x{team}")
        await self.roles("roles")
        for task, owner in enumerate(drawn["owners"]):
            await world.task(f"task{self.n}x{task}", f"p{self.n}x{owner}")
        for box, (team, task) in enumerate(drawn["boxes"]):
            await world.box(f"b-{self.n}x{box}", f"t{self.n}x{team}", self.named("task", task))
        world.at += timedelta(seconds=1)
        self.begin = world.at
        for record in drawn["records"]:
            world.at += timedelta(seconds=record.wait - 1)  # `record` adds one
            seq = await world.record(
                record.action, self.named("p", record.actor), task=self.named("task", record.task),
                box=self.named("b-", record.box), outcome=record.outcome,
            )  # fmt: skip
            self.made.append((world.at, seq, record))

    async def roles(self, which: str) -> None:
        for team, roles in enumerate(self.drawn[which]):
            for person, role in enumerate(roles):
                await self.world.role(f"t{self.n}x{team}", f"p{self.n}x{person}", role)

    def reads(self, person: int, record: Drawn, which: str) -> bool:
        if record.actor == person:
            return True
        if record.task is not None and self.drawn["owners"][record.task] == person:
            return True
        if record.box is not None and self.drawn[which][self.drawn["boxes"][record.box][0]][person] == "admin":
            return True
        return self.drawn["admin"] == person and (record.actor, record.task, record.box) == (None, None, None)

    def fits(self, at: datetime, record: Drawn, asked: dict[str, Any]) -> bool:
        return (
            all(asked[one] in (None, getattr(record, one)) for one in ("task", "box", "actor", "action"))
            and (
                asked["outcome"] in (None, record.outcome)
                or (asked["outcome"] == "refused" and record.outcome not in ("ok", "error"))
            )
            and (asked["since"] is None or at >= self.begin + timedelta(seconds=asked["since"]))
            and (asked["until"] is None or at < self.begin + timedelta(seconds=asked["until"]))
        )

    async def check(self, which: str) -> None:
        nothing = dict.fromkeys(self.drawn["asked"])
        for person in range(PEOPLE):
            for asked in (nothing, self.drawn["asked"]):
                meant = [
                    seq
                    for at, seq, record in sorted(self.made, key=lambda one: one[:2], reverse=True)
                    if self.reads(person, record, which) and self.fits(at, record, asked)
                ]
                assert await self.shown(person, asked) == meant, (person, asked)
            for _, seq, record in self.made:
                name = f"p{self.n}x{person}"
                assert await self.world.reads(name, seq) == self.reads(person, record, which), (person, record)

    async def shown(self, person: int, asked: dict[str, Any]) -> list[int]:
        """What a person's pages show, page after page."""
        at = {one: self.begin + timedelta(seconds=asked[one]) for one in ("since", "until") if asked[one] is not None}
        who = self.named("p", asked["actor"])
        wanted = Asked(
            self.named("task", asked["task"]), self.named("b-", asked["box"]), None, asked["action"],
            asked["outcome"], at.get("since", self.begin), at.get("until"), limit=3,
        )  # fmt: skip
        found: list[int] = []
        before: Place | None = None
        for _ in range(40):
            page = await actions.page_of(
                self.world.deps, signed_in(self.world.people[f"p{self.n}x{person}"]),
                replace(wanted, before=before),
                person=f"{who}@example.org" if who else None,
            )  # fmt: skip
            found += [entry.seq for entry in page.entries]
            before = page.older
            if before is None:
                return found
        raise AssertionError("the pages do not end")


@pytest.fixture
def live(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> Iterator[tuple[asyncio.Runner, World]]:
    """A database for all the drawn houses, each of which stands beside those before it."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        deps = runner.run(stack.enter_async_context(house(database, tmp_path, clock)))
        yield runner, World(deps)
        runner.run(stack.aclose())


def test_a_page_shows_exactly_what_a_naive_model_says(
    live: tuple[asyncio.Runner, World], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, world = live
    monkeypatch.setattr(store, "LOOKED", 3)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=NO_SHRINK)
    @given(HOUSE)
    def play(drawn: dict[str, Any]) -> None:
        async def once() -> None:
            naive = Naive(world, drawn)
            await naive.make()
            await naive.check("roles")
            await naive.roles("later")
            await naive.check("later")

        runner.run(once())

    play()
