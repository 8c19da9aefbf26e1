"""A state machine of boxes: claimed, started, parked, revived, destroyed in any order, by any agent that ever was."""

from __future__ import annotations

from typing import cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.behaviour.machines.harness import HEAD, Bench, Place

from keel.refusal import Refusal
from rift.agents import actions as agents
from rift.agents.model import Event, Failed, Up
from rift.boxes.actions import STEADY, TRIES
from rift.boxes.decide import decide_again
from rift.boxes.model import LIVING, TRANSITIONS, Box, State, smallest_free
from rift.commands.model import Answer, End

NEXT = "b" * 40
WARM = 2
EVENTS: dict[str, Event] = {"up": Up(), "failed": Failed("no disk"), "ended": End(1, 0, None, 0, b"")}


class Boxes(RuleBasedStateMachine):
    """Two tasks of one person, a pool of two warm boxes, and every agent that was ever started."""

    bench: Bench

    def __init__(self) -> None:
        super().__init__()
        self.place: Place = self.bench.fresh(WARM)
        self.head = HEAD
        self.handles = [self.bench.run(self.place.open_task()).handle for _ in range(2)]
        self.closed: set[str] = set()
        self.claimed: set[str] = set()
        self.looked = 0

    # What there is.

    def all(self) -> list[Box]:
        return self.bench.run(self.place.all_boxes())

    def one(self, which: int) -> Box | None:
        """A box that a step is about: one of those there are, or the last that is gone."""
        found = self.all()
        some = [box for box in found if box.state != "destroyed" and box.task] + found[-3:]
        return some[which % len(some)] if some else None

    def handle(self, box: Box) -> str | None:
        return next((handle for handle in self.handles if box.task and handle.startswith(box.task)), None)

    # The steps.

    @initialize()
    def each_task_has_a_box_and_the_pool_is_full(self) -> None:
        for handle in self.handles:
            self.claimed.add(self.bench.run(self.place.running_box(handle)).id)
        assert len(self.bench.run(self.place.warm(WARM))) == WARM

    @rule(task=st.integers(0, 1))
    def a_box_is_asked_for(self, task: int) -> None:
        handle, before = self.handles[task], self.all()
        resting = any(
            row["resting"]
            for row in self.bench.run(self.place.rows("SELECT failure IS NOT NULL AS resting FROM watches"))
        )
        got = self.bench.run(self.place.new_box(handle))
        if isinstance(got, Refusal):
            assert got.code == ("task_closed" if handle in self.closed else "head_failed")
            assert handle in self.closed or resting
            return
        assert handle not in self.closed
        assert got.task == handle.partition(".")[0]
        assert got.commit == self.head
        assert got.id not in self.claimed
        self.claimed.add(got.id)
        warm = [box for box in before if box.task is None and box.commit == self.head]
        running = [box.id for box in warm if box.state == "running"]
        starting = [box.id for box in warm if box.state == "starting"]
        if running or starting:
            assert got.id in (running or starting)
        else:
            taken = {box.number for box in before if box.state != "destroyed"}
            assert got.number == smallest_free(taken)
            assert got.name == f"app-main-{got.number}"
            assert got.id not in {box.id for box in before}

    @rule()
    def the_worker_works(self) -> None:
        self.bench.run(self.place.work())

    @rule()
    def what_starts_comes_up(self) -> None:
        self.bench.run(self.place.work())
        for box in self.all():
            if box.state == "starting" and box.incarnation:
                assert self.bench.run(self.place.up(box.id))

    @rule()
    def upkeep_comes_round(self) -> None:
        self.bench.run(self.place.upkeep())
        boxes = self.all()
        fresh = [box for box in boxes if box.task is None and box.commit == self.head]
        assert sum(box.state in ("starting", "running") for box in fresh) <= WARM
        assert not [box for box in boxes if box.state == "destroying"]  # nothing kept it
        open = {handle.partition(".")[0] for handle in self.handles if handle not in self.closed}
        assert {box.task for box in boxes if box.state != "destroyed"} <= open | {None}

    @rule(
        which=st.integers(0, 7),
        back=st.integers(0, 2),
        event=st.sampled_from(["up", "failed", "ended", "work", "answer"]),
    )
    def an_agent_speaks(self, which: int, back: int, event: str) -> None:
        """The agent of a box, or one of its earlier incarnations, which nobody believes any more."""
        box = self.one(which)
        if box is None or box.incarnation - back < 1:
            return
        agent = self.place.agent(box.id, box.incarnation - back)
        current = back == 0 and box.state in LIVING and box.token_sha256 is not None
        said: object
        if event == "work":
            said = self.bench.run(self.place.poll(agent)) is not None
        elif event == "answer":
            said = self.bench.run(agents.answer(self.place.deps, agent, "nobody asked", 0, 0, b""))
        else:
            said = self.bench.run(agents.events(self.place.deps, agent, [EVENTS[event]]))
        assert said is current
        after = self.bench.run(self.place.box(box.id))
        if not current:
            assert after == box
        elif event == "up":
            assert after.state == ("running" if box.state == "starting" else box.state)
        elif event == "failed":
            enough = box.state != "parked" and decide_again(box, TRIES, STEADY) is None
            assert (after.state, after.failure) == (("failed", "no disk") if enough else (box.state, None))
            assert after.token_sha256 is None
        else:
            assert after.state == box.state

    @rule(which=st.integers(0, 7))
    def a_command_is_sent(self, which: int) -> None:
        box = self.one(which)
        if box is None or box.task is None:
            return
        got = self.bench.run(self.place.bash(self.handle(box) or "", box.id))
        after = self.bench.run(self.place.box(box.id))
        if isinstance(got, Answer):
            assert box.state in LIVING
            assert after.state == ("starting" if box.state == "starting" else "running")
            assert after.epoch == box.epoch + (box.state == "parked")
            assert got.report.id == f"{box.id}.{box.next_command}"
        elif self.handle(box) in self.closed:
            assert got.code == "task_closed"
        else:
            expected = {"failed": "vm_failed", "destroying": "vm_gone", "destroyed": "vm_gone"}
            assert got.code == expected.get(box.state, "vm_full")
            assert after == box

    @rule(which=st.integers(0, 7))
    def a_box_ends_what_it_runs(self, which: int) -> None:
        box = self.one(which)
        if box is None or box.state not in ("running", "parked") or box.token_sha256 is None:
            return
        work = self.bench.run(self.place.poll(self.place.agent(box.id)))
        assert work is not None
        ends = [End(cast(int, command["n"]), 0, None, 0, b"") for command in work.commands]
        assert self.bench.run(agents.events(self.place.deps, self.place.agent(box.id), ends))

    @rule(which=st.integers(0, 7))
    def a_box_is_suspended(self, which: int) -> None:
        box = self.one(which)
        if box is None or box.task is None:
            return
        open = self.bench.run(self.place.rows("SELECT box FROM commands WHERE state IN ('queued', 'claimed')"))
        got = self.bench.run(self.place.suspend(self.handle(box) or "", box.id))
        if isinstance(got, Box):
            assert box.state in ("running", "parked")
            assert {"box": box.id} not in open
            assert got.state == "parked"
            assert got.epoch == box.epoch + (box.state == "running")
        elif self.handle(box) in self.closed:
            assert got.code == "task_closed"
        else:
            expected = {"starting": "vm_starting", "failed": "vm_failed", "running": "vm_busy"}
            assert got.code == expected.get(box.state, "vm_gone")

    @rule(which=st.integers(0, 7))
    def a_box_is_destroyed(self, which: int) -> None:
        box = self.one(which)
        if box is None or box.task is None:
            return
        got = self.bench.run(self.place.destroy(self.handle(box) or "", box.id))
        if isinstance(got, Box):
            assert got.state in ("destroying", "destroyed")
            assert got.token_sha256 is None
        else:
            assert got.code == "task_closed"

    @precondition(lambda self: not self.closed)
    @rule()
    def a_task_is_closed(self) -> None:
        handle = self.handles[1]
        got = self.bench.run(self.place.close_task(handle))
        assert not isinstance(got, Refusal)
        self.closed.add(handle)
        id = handle.partition(".")[0]
        assert {box.state for box in self.all() if box.task == id} <= {"destroying", "destroyed"}

    @rule(which=st.integers(0, 7), missed=st.booleans())
    def an_agent_dies(self, which: int, missed: bool) -> None:
        box = self.one(which)
        if box is None or box.id not in self.bench.run(self.place.driver.inventory()):
            return
        self.bench.run(self.place.driver.kill_agent(box.id))
        if not missed:
            return
        self.time_passes(31.0)
        old = self.place.agent(box.id)
        self.upkeep_comes_round()
        after = self.bench.run(self.place.box(box.id))
        if box.state == "running" and after.state == "running":
            assert after.incarnation == box.incarnation + 1
            assert after.used_at == box.used_at
            assert not self.bench.run(agents.events(self.place.deps, old, [Up()]))

    @rule(what=st.sampled_from(["fail_starts", "fail_power"]))
    def the_next_attempt_fails(self, what: str) -> None:
        getattr(self.place.driver, what).append("the disk is full")

    @rule(commit=st.sampled_from([HEAD, NEXT]))
    def the_head_moves(self, commit: str) -> None:
        self.head = commit
        self.bench.run(self.place.move_head(commit))

    @rule(seconds=st.sampled_from([1.0, 31.0, 61.0, 121.0, 1801.0]))
    def time_passes(self, seconds: float) -> None:
        self.place.clock.advance(seconds)
        for handle in self.handles:
            if handle not in self.closed:  # only what is not tended closes itself, which is the leases' affair
                self.bench.run(self.place.output(handle, ("b-none.1", 0)))

    @invariant()
    def every_step_is_in_the_table_and_no_box_changes_hands(self) -> None:
        steps = self.bench.run(
            self.place.rows(f"SELECT * FROM steps WHERE what = 'box' AND seq > {self.looked} ORDER BY seq")
        )
        for step in steps:
            self.looked = step["seq"]
            old, new = cast("State | None", step["old_state"]), cast("State", step["new_state"])
            if old is None:
                assert new == "starting"
                continue
            assert old == new or new in TRANSITIONS[old], step
            assert step["new_incarnation"] - step["old_incarnation"] in (0, 1)
            assert step["new_incarnation"] == step["old_incarnation"] or old in ("starting", "running")
            assert step["new_epoch"] - step["old_epoch"] in (0, 1)
            assert step["old_task"] in (None, step["new_task"])
            assert step["old_task"] == step["new_task"] or old in ("starting", "running")

    @invariant()
    def the_rows_agree_with_each_other(self) -> None:
        boxes = self.all()
        living = [box for box in boxes if box.state != "destroyed"]
        assert len({box.number for box in living}) == len(living)
        for box in boxes:
            assert box.token_sha256 is None or (box.incarnation > 0 and box.state in LIVING)
            assert (box.failure is not None) == (box.state == "failed") or box.state in ("destroying", "destroyed")
        open = self.bench.run(
            self.place.rows(
                """
                SELECT b.state, count(*) AS count FROM commands c JOIN boxes b ON b.id = c.box
                WHERE c.state IN ('queued', 'claimed') GROUP BY b.id
                """
            )
        )
        assert all(row["state"] in ("starting", "running") and row["count"] <= 4 for row in open), open


def test_boxes_live_by_the_table_whatever_is_done_to_them(bench: Bench) -> None:
    Boxes.bench = bench
    run_state_machine_as_test(
        Boxes,
        settings=settings(
            max_examples=30, stateful_step_count=35, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
