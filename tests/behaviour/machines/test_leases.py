"""A state machine of leases: whatever two people and their clients do, a pure model says what each call answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.behaviour.machines.harness import Bench, Place

from keel.ids import digest
from keel.refusal import Refusal
from rift.boxes import actions as boxes
from rift.people.model import Caller
from rift.tasks import actions as tasks
from rift.tasks.model import Lease

MINUTE, HALF_HOUR, FOUR_HOURS = timedelta(minutes=1), timedelta(minutes=30), timedelta(hours=4)
STEPS = [
    0.0,
    1.0,
    59.0,
    59.999999,
    60.0,
    61.0,
    1740.0,
    1799.999999,
    1800.0,
    1801.0,
    7201.5,
    14339.0,
    14399.999999,
    14400.0,
]


@dataclass(frozen=True)
class Expected:
    """A task as it should be."""

    id: str
    owner: str
    handle: str | None
    holder: str | None
    held_since: datetime | None
    activity: datetime
    open: bool = True


class Leases(RuleBasedStateMachine):
    """Two clients of one person and a stranger, with every handle that was ever seen."""

    bench: Bench
    ids, handles = Bundle("ids"), Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = self.bench.fresh()
        self.tasks: dict[str, Expected] = {}
        self.seen: set[str] = set()
        self.dead: set[str] = set()

    # The model.

    def now(self) -> datetime:
        return self.place.clock.now()

    def quiet(self, task: Expected) -> timedelta:
        return max(self.now() - task.activity, timedelta(0))

    def put(self, task: Expected) -> None:
        before = self.tasks.get(task.id)
        if before and before.handle and before.handle != task.handle:
            self.dead.add(before.handle)
        self.tasks[task.id] = task

    def close(self, task: Expected) -> None:
        self.put(replace(task, open=False, handle=None, holder=None, held_since=None))

    def ended(self, id: str, who: Caller) -> str | None:
        """The refusal that comes before anything about the lease; a task that is over closes by being asked for."""
        task = self.tasks.get(id)
        if task is None or task.owner != who.user:
            return "task_unknown"
        if task.open and self.quiet(task) >= FOUR_HOURS:
            self.close(task)
        return None if self.tasks[id].open else "task_closed"

    def admitted(self, handle: str, who: Caller) -> str | None:
        """What a call under a handle is refused with, or None; then its task's clock has moved if it was due."""
        id, _, secret = handle.partition(".")
        if not secret:
            return "bare_task_id"
        refused = self.ended(id, who)
        if refused:
            return refused
        task = self.tasks[id]
        if task.handle is None:
            return "task_released"
        if task.handle != handle:
            return "task_held"
        if self.now() - task.activity >= MINUTE:
            self.put(replace(task, activity=self.now()))
        return None

    def minted(self, lease: Lease, who: Caller) -> str:
        assert lease.handle not in self.seen
        assert lease.task.holder == who.label
        self.seen.add(lease.handle)
        return lease.handle

    # The steps.

    @initialize(target=ids)
    def two_tasks_and_one_that_nobody_opened(self) -> object:
        return multiple("task_zzzz2222", *self.open(self.place.ada), *self.open(self.place.bob))

    @rule(target=ids, who=st.sampled_from(["ada", "cursor", "bob"]))
    def opened(self, who: str) -> object:
        return multiple(*self.open(getattr(self.place, who)))

    def open(self, caller: Caller) -> tuple[str, str]:
        """A new task's id and handle."""
        lease = self.bench.run(tasks.open_task(self.place.deps, self.place.act(caller), "work"))
        assert isinstance(lease, Lease)
        handle, now = self.minted(lease, caller), self.now()
        self.put(Expected(lease.task.id, caller.user, handle, caller.label, now, now))
        return lease.task.id, handle

    @rule(target=handles, text=ids)
    def heard_of(self, text: str) -> object:
        """A bare id, a guess at its secret, and what is no handle's secret at all."""
        return multiple(text, f"{text.partition('.')[0]}.guess")

    @rule(
        target=ids,
        text=st.one_of(ids, handles),
        who=st.sampled_from(["ada", "cursor", "bob"]),
        takeover=st.booleans(),
    )
    def attached(self, text: str, who: str, takeover: bool) -> object:
        return self.attach(text, getattr(self.place, who), takeover)

    def attach(self, text: str, caller: Caller, takeover: bool) -> object:
        id = text.partition(".")[0]
        refused = self.ended(id, caller)
        task = self.tasks.get(id)
        if not refused and task and task.handle and not takeover and self.quiet(task) < HALF_HOUR:
            refused = "task_in_use"
        got = self.bench.run(tasks.attach(self.place.deps, self.place.act(caller), text, takeover))
        if isinstance(got, Refusal):
            assert got.code == refused
            if refused == "task_in_use" and task:
                assert got.facts["holder"] == task.holder
            return multiple()
        assert refused is None
        assert task is not None
        handle = self.minted(got, caller)
        self.put(
            replace(
                task,
                handle=handle,
                holder=caller.label,
                held_since=self.now(),
                activity=self.now() if self.now() - task.activity >= MINUTE else task.activity,
            )
        )
        return handle

    @rule(text=st.one_of(ids, handles), who=st.sampled_from(["ada", "cursor", "bob"]))
    def called(self, text: str, who: str) -> None:
        self.call(text, getattr(self.place, who))

    def call(self, text: str, caller: Caller) -> None:
        refused = self.admitted(text, caller)
        got = self.bench.run(boxes.list_boxes(self.place.deps, self.place.act(caller), text))
        assert (got.code if isinstance(got, Refusal) else None) == refused
        if text in self.dead:
            assert refused is not None
        if isinstance(got, Refusal) and got.code == "task_held":
            assert got.facts["holder"] == self.tasks[text.partition(".")[0]].holder

    @rule(text=st.one_of(ids, handles), who=st.sampled_from(["ada", "cursor", "bob"]))
    def released(self, text: str, who: str) -> None:
        caller = getattr(self.place, who)
        refused = self.admitted(text, caller)
        got = self.bench.run(tasks.release(self.place.deps, self.place.act(caller), text))
        assert (got.code if isinstance(got, Refusal) else None) == refused
        if refused is None:
            task = self.tasks[text.partition(".")[0]]
            self.put(replace(task, handle=None, holder=None, held_since=None))

    @rule(text=consumes(ids), who=st.sampled_from(["ada", "cursor", "bob"]))
    def closed(self, text: str, who: str) -> None:
        caller = getattr(self.place, who)
        refused = self.admitted(text, caller)
        got = self.bench.run(self.place.close_task(text, caller))
        assert (got.code if isinstance(got, Refusal) else None) == refused
        if refused is None:
            self.close(self.tasks[text.partition(".")[0]])

    @rule(seconds=st.sampled_from(STEPS))
    def time_passes(self, seconds: float) -> None:
        self.place.clock.advance(seconds)

    @rule(
        target=ids,
        which=st.integers(0, 5),
        edge=st.sampled_from([MINUTE, HALF_HOUR, FOUR_HOURS]),
        before=st.sampled_from([timedelta(0), timedelta(microseconds=1)]),
        attach=st.booleans(),
    )
    def an_edge_is_met(self, which: int, edge: timedelta, before: timedelta, attach: bool) -> object:
        """A call or an attach when a task's clock says something else, or just before it."""
        if not self.tasks:
            return multiple()
        task = list(self.tasks.values())[which % len(self.tasks)]
        owner = self.place.bob if task.owner == self.place.bob.user else self.place.cursor
        self.place.clock.advance(max(task.activity + edge - before - self.now(), timedelta(0)))
        if attach or task.handle is None:
            return self.attach(task.id, owner, False)
        self.call(task.handle, owner)
        return multiple()

    @rule(seconds=st.sampled_from([0.5, 61.0, 4000.0]))
    def the_wall_clock_jumps_back(self, seconds: float) -> None:
        self.place.clock.set(self.now() - timedelta(seconds=seconds))

    @rule()
    def upkeep_comes_round(self) -> None:
        due = {task.id for task in self.tasks.values() if task.open and self.quiet(task) >= FOUR_HOURS}
        assert set(self.bench.run(tasks.close_quiet(self.place.deps))) == due
        for id in due:
            self.close(self.tasks[id])

    @rule(who=st.sampled_from(["ada", "cursor", "bob"]))
    def listed(self, who: str) -> None:
        caller = getattr(self.place, who)
        lines = self.bench.run(boxes.list_tasks(self.place.deps, self.place.act(caller)))
        open = {task.id for task in self.tasks.values() if task.open and task.owner == caller.user}
        assert {line.task.id for line in lines} == open

    @invariant()
    def the_tasks_are_as_the_model_says(self) -> None:
        rows = self.bench.run(self.place.rows("SELECT * FROM tasks"))
        assert {row["id"] for row in rows} == set(self.tasks)
        for row in rows:
            task = self.tasks[row["id"]]
            assert row["status"] == ("open" if task.open else "closed")
            assert (row["holder"], row["held_since"], row["activity_at"]) == (
                task.holder,
                task.held_since,
                task.activity,
            )
            alive = [handle for handle in self.handles_of(task.id) if digest(handle[14:]) == row["secret_sha256"]]
            assert alive == ([task.handle] if task.handle else [])
            assert not self.dead.intersection(alive)

    def handles_of(self, id: str) -> Iterator[str]:
        return (handle for handle in self.seen if handle.startswith(f"{id}."))


def test_leases_do_as_a_pure_model_says_whatever_is_done_to_them(bench: Bench) -> None:
    Leases.bench = bench
    run_state_machine_as_test(
        Leases,
        settings=settings(
            max_examples=50, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
