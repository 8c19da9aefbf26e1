"""A state machine of environments: heads move, refs and repositories come and go, builds fail and hang, workers die."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.behaviour.machines.harness import Bench
from tests.behaviour.machines.site import COMMITS, REFS, Site, built, there
from tests.behaviour.machines.workers import at_once

from rift.boxes.model import Box
from rift.environments import actions, jobs
from rift.environments.model import HELD_FOR, TRANSITIONS, Environment, State
from rift.names import HEAD_RESTS

commits = st.sampled_from(COMMITS)
refs = st.sampled_from(REFS)
Work = tuple[str, int, list[int], str] | None
"""What a worker does after a step: its job, which of two it is, how far it goes, and what then becomes of it."""
works: st.SearchStrategy[Work] = st.none() | st.tuples(
    st.sampled_from(["build", "build", "tidy"]),
    st.integers(0, 1),
    st.lists(st.integers(0, 2), max_size=12),
    st.sampled_from(["left", "left", "goes on", "killed", "told"]),
)
NO_NIX = "There is no Nix on this host."


class Environments(RuleBasedStateMachine):
    """One repository with two branches and five commits, the boxes of one task, and two workers at most."""

    site: Site

    def __init__(self) -> None:
        super().__init__()
        self.site.fresh()
        self.run = self.site.bench.run
        self.place, self.builder = self.site.place, self.site.builder
        self.looked = 0
        self.lost: set[str] = set()
        """Packages that the host lost and that were not built again."""
        self.came: dict[str, int] = {}
        """By ref: which step of an environment was the last before it was watched, or came to its head."""

    # What there is.

    def all(self) -> list[Environment]:
        return self.run(self.environments())

    async def environments(self) -> list[Environment]:
        async with self.place.deps.db.tx() as tx:
            return await actions.of_repo(tx, self.site.repo)

    def boxes(self) -> list[Box]:
        return [box for box in self.run(self.place.all_boxes()) if box.state != "destroyed"]

    def watched(self) -> dict[str, dict[str, Any]]:
        """The watched refs with their heads and failures."""
        rows = self.run(
            self.site.rows(
                "SELECT w.ref, h.commit, w.failure, w.failure_commit FROM watches w JOIN heads h USING (repo, ref)"
            )
        )
        return {row["ref"]: row for row in rows}

    def open(self) -> bool:
        (row,) = self.run(self.site.rows("SELECT is_open() AS open"))
        return bool(row["open"])

    # What people do.

    @initialize(boxes=st.integers(0, 2))
    def two_heads_are_watched(self, boxes: int) -> None:
        """One of them is built, and boxes of it run."""
        self.a_head_moves("main", COMMITS[1])
        for _ in range(boxes):
            self.a_box_is_asked_for("main")
        self.upkeep_comes_round()
        self.boxes_come_up()
        self.a_head_moves("next", COMMITS[2])
        self.a_ref_is_watched_or_not_any_more("next", 0)

    @rule(ref=refs, commit=commits, work=works)
    def a_head_moves(self, ref: str, commit: str, work: Work = None) -> None:
        self.place.clock.advance(0.5)
        before = self.watched()
        self.run(self.site.move(ref, commit))
        if self.watched().get(ref) != before.get(ref):
            self.came[ref] = self.looked
        self.run(self.site.work(builds=False))
        self.works(work)

    @rule(ref=refs, warm=st.sampled_from([0, 1, None]), work=works)
    def a_ref_is_watched_or_not_any_more(self, ref: str, warm: int | None, work: Work = None) -> None:
        if warm is None:
            was = ref in self.watched()
            assert self.run(self.site.unwatch(ref)) is was
        else:
            assert self.run(self.site.watch(ref, warm)) is self.open()
            self.came[ref] = self.looked
        self.run(self.site.work(builds=False))
        self.works(work)

    @rule(how=st.sampled_from(["disabled", "uncovered", "open", "open"]), work=works)
    def the_repository_is_closed_or_opened_again(self, how: str, work: Work = None) -> None:
        if how != "open":
            self.site.close(how)
        elif not self.open():
            self.site.open()
            before = self.watched()
            self.run(self.site.read())
            self.came |= {ref: self.looked for ref, row in self.watched().items() if row != before.get(ref)}
        self.works(work)

    @rule(ref=refs, work=works)
    def a_box_is_asked_for(self, ref: str, work: Work = None) -> None:
        self.run(self.place.new_box(self.site.handle, ref=ref))
        self.boxes_come_up()
        self.works(work)

    def boxes_come_up(self) -> None:
        """Those whose environment is there."""
        self.run(self.site.work(builds=False))
        for box in self.boxes():
            if box.state == "starting" and box.token_sha256 is not None:
                self.run(self.place.up(box.id))

    @rule(which=st.integers(0, 3), work=works)
    def a_box_is_destroyed(self, which: int, work: Work = None) -> None:
        mine = [box for box in self.boxes() if box.task]
        if mine:
            self.run(self.place.destroy(self.site.handle, mine[which % len(mine)].id))
            self.run(self.site.work(builds=False))
        self.works(work)

    # What the host and the builder do.

    @rule(
        commit=commits,
        how=st.sampled_from(["broken", "hangs", "ungathered", "interrupted", "lacking", "mended"]),
        work=works,
    )
    def something_is_wrong_or_mended(self, commit: str, how: str, work: Work = None) -> None:
        """With what is built from now on, of this commit or of any."""
        if how == "broken" and commit in self.builder.flakes:
            self.builder.broken[commit] = f"{commit[0]}: no such luck"
        elif how == "hangs":
            self.builder.held.setdefault(commit, self.run(self.site.event()))
        elif how == "ungathered":
            self.site.forge.ungathered[commit] = f"{commit[0]}: its submodule is gone"
        elif how == "interrupted":
            self.builder.interrupted.append("it was killed")
        elif how == "lacking":
            self.builder.lack = NO_NIX
        else:
            self.all_is_mended()
        self.works(work)

    def all_is_mended(self) -> None:
        """What hung goes on, too."""
        for wrong in (self.builder.broken, self.site.forge.ungathered, self.builder.interrupted):
            wrong.clear()
        self.builder.lack = None
        while self.builder.held:
            self.builder.held.popitem()[1].set()
        self.run(self.site.settle())

    @rule(which=st.integers(0, 3), work=works)
    def what_was_built_is_lost(self, which: int, work: Work = None) -> None:
        lost = [one for one in self.all() if one.made is not None]
        if lost:
            one = lost[which % len(lost)]
            self.lost |= there(self.builder) & set(built(one.commit).paths)
            self.run(self.site.lose(one.commit))
        self.works(work)

    # What workers do.

    @rule(seconds=st.sampled_from([0.0, 1.0, 21.0, 61.0]), comes=st.booleans(), work=works)
    def time_passes_and_upkeep_comes_round(self, seconds: float, comes: bool, work: Work = None) -> None:
        self.place.clock.advance(seconds)
        if comes:
            self.upkeep_comes_round()
        self.works(work)

    def upkeep_comes_round(self) -> None:
        self.run(self.site.upkeep())
        failed = {one.commit: one for one in self.all() if one.state == "failed"}
        for row in self.watched().values():
            if row["commit"] in failed and self.open():
                assert row["failure"] is not None, row
                assert row["failure_commit"] == row["commit"], row

    @rule()
    def what_is_old_is_collected(self) -> None:
        self.run(self.site.collect())

    def works(self, work: Work) -> None:
        """One that is at work goes on, or one begins: to collect where nobody works, to build where nobody collects.

        It goes so far, and then to its end, or it is killed, or told to end, or left at that.
        """
        if work is None:
            return
        job, which, parts, then = work
        living = self.site.living()
        if not living or (which == len(living) == 1 and job == "build" and not self.site.collects()):
            worker = self.run(self.site.begin(f"environments.{job}"))
        else:
            worker = living[which % len(living)]
        for part in parts:
            self.run(worker.go_on(part))
        if then == "killed":
            self.run(worker.kill())
        elif then == "told":
            self.run(worker.end())
        elif then == "goes on":
            self.run(worker.run())
            if not worker.over:  # what it builds hangs, and somebody waits for it
                building = [one.commit for one in self.all() if one.state == "building"]
                assert any(self.site.waits(commit) for commit in building), building

    @rule(first=st.integers(0, 16), late=st.booleans(), second=st.integers(0, 16))
    def two_workers_do_the_same_at_once(self, first: int, late: bool, second: int) -> None:
        """The one may be ahead of the other, or so late that the other has taken its build up."""
        if self.site.collects():
            return
        for far, pause in ((first, HELD_FOR * 1.01 if late else timedelta(0)), (second, timedelta(0))):
            if len(self.site.living()) < 2:
                worker = self.run(self.site.begin())
                for _ in range(far):
                    self.run(worker.go_on(0))
                self.place.clock.advance(pause)
        self.run(at_once(self.site.living()))

    # What is always so.

    @invariant()
    def every_step_is_in_the_table_and_is_taken_when_it_may_be(self) -> None:
        now = self.place.clock.now()
        for step in self.run(self.site.rows(f"SELECT * FROM environment_steps WHERE seq > {self.looked} ORDER BY seq")):
            self.looked = step["seq"]
            old, new = cast("State | None", step["old_state"]), cast("State | None", step["new_state"])
            if old is None:
                assert new == "waiting", step
            elif new is None:
                assert old in ("failed", "cancelled"), step
                assert not step["heads"] + step["boxes"], step
            else:
                assert new == old == "building" or new == old == "waiting" or new in TRANSITIONS[old], step
            if new == "building" and step["new_epoch"] != step["old_epoch"]:
                assert step["new_epoch"] == step["old_epoch"] + 1, step
                assert old == "waiting" or step["old_until"] < now, step
                assert (step["heads"] and step["open"]) or step["waiting"], step
                assert not step["newer"], step
            elif old is not None and new is not None:
                assert step["new_epoch"] == step["old_epoch"], step
            if old == "ready" and new == "cancelled":
                assert not step["heads"] + step["boxes"], step
            if new == "failed" and old != "failed":
                self.told(step)

    def told(self, step: dict[str, Any]) -> None:
        """A failure is the last failure at each watched head of its commit that was one before it."""
        one = next((one for one in self.all() if one.id == step["id"]), None)
        if one is None or one.state != "failed" or one.epoch != step["new_epoch"]:
            return
        for ref, row in self.watched().items():
            if row["commit"] == one.commit and self.came.get(ref, 0) < step["seq"]:
                assert (row["failure"], row["failure_commit"]) == (one.failure, one.commit), (row, one)

    @invariant()
    def one_is_built_at_a_time(self) -> None:
        now = self.place.clock.now()
        held = [one for one in self.all() if one.state == "building" and one.until and one.until >= now]
        assert len(held) <= 1, held

    @invariant()
    def what_boxes_use_and_what_is_ready_is_there(self) -> None:
        here = there(self.builder)
        self.lost -= here
        for box in self.boxes():
            assert set(self.site.boxes.equipped.get(box.id, ())) <= here | self.lost, box
        for one in self.all():
            if one.state == "ready" and one.made is not None:
                assert one.build in self.builder.made or set(one.made.paths) <= self.lost, one

    @invariant()
    def a_failure_has_the_text_of_what_failed(self) -> None:
        for one in self.all():
            assert (one.failure is not None) == (one.state == "failed"), one
            if one.failure is not None:
                letter = one.commit[0]
                texts = (NO_NIX, f"{letter}: no such luck", f"{letter}: its submodule is gone")
                assert one.failure in texts or one.failure.endswith("interrupted: it was killed"), one

    def teardown(self) -> None:
        failed = sys.exc_info()[0] is not None
        for worker in self.site.living():
            self.run(worker.kill())
        if not failed:
            self.all_is_well_in_the_end()

    def all_is_well_in_the_end(self) -> None:
        """Left alone with a good builder, and asked once again for what failed for good."""
        self.all_is_mended()
        self.site.open()
        self.run(self.site.read())
        self.upkeep_comes_round()  # what failed for good is told at its head
        for ref, row in self.watched().items():
            if row["failure"] is not None:
                assert self.run(self.site.watch(ref, 0))
        for _ in range(4):
            self.place.clock.advance(max(HELD_FOR, HEAD_RESTS) * 1.01)
            self.run(self.site.upkeep())
            self.run(self.site.collect())
        ready = {one.commit: one for one in self.all() if one.state == "ready"}
        used = {row["commit"] for row in self.watched().values()}
        assert used <= set(ready), (used, self.all())
        used |= {box.commit for box in self.boxes()}
        assert {one.commit for one in self.all()} <= used, (used, self.all())
        known = {one.id for one in ready.values()}
        assert {build.rpartition("-")[0] for build in self.builder.made} <= known, (self.builder.made, known)
        assert sorted(self.builder.began) == sorted(self.builder.ended)


def test_environments_live_by_the_table_whatever_is_done_to_them(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOOK_SECONDS", 0.0)  # a worker waits for its turn instead
    Environments.site = Site(bench)
    run_state_machine_as_test(
        Environments,
        settings=settings(
            max_examples=30, stateful_step_count=35, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
