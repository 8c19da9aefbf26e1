"""Boxes wait for the environment of their commit, have it for their life, and fail with what makes it fail."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.behaviour.environments.flakes import TEXT, Flakes

from keel.refusal import Refusal
from keel.testing import eventually
from rift.agents import actions as agents
from rift.agents.model import Failed
from rift.boxes import actions as boxes
from rift.boxes.model import Box, BoxLine
from rift.drivers.boxes.protocol import StoreLost
from rift.drivers.nix.protocol import BuildInterrupted
from rift.names import HEAD_RESTS
from rift.repos import actions as repos


@pytest.mark.parametrize("goes_well", [True, False])
async def test_a_box_asked_for_while_its_environment_is_built_starts_or_fails_with_it(
    flakes: Flakes, goes_well: bool
) -> None:
    done = flakes.hold("b")
    await flakes.push("b", broken=None if goes_well else TEXT)
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    flakes.place.clock.advance(timedelta(seconds=12))
    lease = await flakes.place.open_task()
    box = await flakes.place.new_box(lease.handle)
    assert isinstance(box, Box), box
    assert (box.state, box.doing) == ("starting", "building the environment, 12 s so far")
    await flakes.place.worker.jobs["boxes.start"](flakes.place.deps, box=box.id)
    assert flakes.place.driver.specs == []
    done.set()
    await building
    await flakes.place.work()
    after = await flakes.place.box(box.id)
    if goes_well:
        assert [spec.box for spec in flakes.place.driver.specs].count(box.id) == 1
        assert await flakes.place.up(box.id)
    else:
        assert (after.state, after.failure, after.incarnation) == ("failed", TEXT, 0)


async def test_an_environment_is_kept_while_a_box_uses_it_and_goes_afterwards(flakes: Flakes) -> None:
    old = await flakes.push("b")
    lease = await flakes.place.open_task()
    box = await flakes.place.running_box(lease.handle)
    new = await flakes.push("c")
    await flakes.place.work()
    builds = [found.build for name in (old, new) if (found := await flakes.of(name))]
    await flakes.place.worker.jobs["environments.old"](flakes.place.deps)
    await flakes.place.work()
    assert await flakes.state(old) == "ready"
    assert not isinstance(await flakes.place.destroy(lease.handle, box.id), Refusal)
    await flakes.place.work()
    await flakes.place.worker.jobs["environments.old"](flakes.place.deps)
    await flakes.place.work()
    assert (await flakes.state(old), await flakes.state(new)) == (None, "ready")
    assert flakes.builder.kept[flakes.place.repo.id] == (builds[1],)


async def test_what_nothing_uses_is_collected_though_whoever_did_that_was_killed(flakes: Flakes) -> None:
    old = await flakes.push("b")
    await flakes.place.upkeep()
    new = await flakes.push("c")
    await flakes.place.upkeep()
    flakes.builder.interrupted.append("the keeper was killed")
    with pytest.raises(BuildInterrupted):
        await flakes.place.worker.jobs["environments.tidy"](flakes.place.deps, repo=flakes.place.repo.id)
    await flakes.place.worker.jobs["environments.old"](flakes.place.deps)
    await flakes.place.work()
    kept = await flakes.of(new)
    assert kept is not None
    assert flakes.builder.kept[flakes.place.repo.id] == (kept.build,)
    assert await flakes.state(old) is None


async def test_of_a_repository_that_nobody_watches_any_more_nothing_is_kept(flakes: Flakes) -> None:
    place = flakes.place
    await flakes.push("b")
    await place.upkeep()
    await place.worker.jobs["environments.tidy"](place.deps, repo=place.repo.id)
    assert len(flakes.builder.kept[place.repo.id]) == 1
    gone = await repos.unwatch(place.deps, place.act(tool="rift_unwatch"), "acme/app", "main")
    assert not isinstance(gone, Refusal)
    await place.upkeep()
    await place.worker.jobs["environments.old"](place.deps)
    await place.work()
    assert place.repo.id not in flakes.builder.kept
    assert await place.rows("SELECT * FROM environments") == []


async def test_what_is_used_again_while_it_is_collected_is_built_again(flakes: Flakes) -> None:
    old = await flakes.push("b")
    await flakes.place.upkeep()
    await flakes.push("c")
    await flakes.place.upkeep()
    flakes.builder.interrupted.append("the keeper was killed")
    with pytest.raises(BuildInterrupted):
        await flakes.place.worker.jobs["environments.tidy"](flakes.place.deps, repo=flakes.place.repo.id)
    await flakes.push("b")
    await flakes.place.upkeep()
    found = await flakes.of(old)
    assert found is not None
    assert (found.state, found.epoch, flakes.builder.began[-1]) == ("ready", 2, found.build)


@pytest.mark.parametrize("runs", [False, True])
async def test_an_environment_that_is_gone_from_the_host_is_built_again_and_its_boxes_wait_for_it(
    flakes: Flakes, runs: bool
) -> None:
    head = await flakes.push("b")
    lease = await flakes.place.open_task()
    if runs:
        box = await flakes.place.running_box(lease.handle)
        await flakes.push("c")
        await flakes.place.work()
        await flakes.place.driver.kill_agent(box.id)
        step = "boxes.revive"
    else:
        await flakes.want()
        await flakes.build()
        made = await flakes.place.new_box(lease.handle)
        assert isinstance(made, Box)
        box, step = made, "boxes.start"
    flakes.place.driver.fail_starts.append(StoreLost("there is no /nix/store/0-tool"))
    await flakes.place.worker.jobs[step](flakes.place.deps, box=box.id)
    assert await flakes.state(head) == "waiting"
    assert (await flakes.place.box(box.id)).state == ("running" if runs else "starting")
    await flakes.place.work()
    await flakes.place.upkeep()
    assert await flakes.state(head) == "ready"
    found = await flakes.of(head)
    assert found is not None
    assert found.build in flakes.builder.began
    assert found.epoch == 2
    last = [spec for spec in flakes.place.driver.specs if spec.box == box.id][-1]
    assert last.equipment is not None
    assert (await flakes.place.driver.inspect(box.id)).state == "running"


async def test_a_box_with_work_in_it_outlasts_a_build_that_fails_for_the_hour_alone(flakes: Flakes) -> None:
    head = await flakes.push("b")
    lease = await flakes.place.open_task()
    box = await flakes.place.running_box(lease.handle)
    await flakes.place.driver.kill_agent(box.id)
    flakes.place.driver.fail_starts.append(StoreLost("there is no /nix/store/0-tool"))
    await flakes.place.worker.jobs["boxes.revive"](flakes.place.deps, box=box.id)
    flakes.builder.lack = "There is no Nix on this host."
    for _ in range(3):
        await flakes.place.upkeep()
    assert await flakes.state(head) == "failed"
    await flakes.place.worker.jobs["boxes.revive"](flakes.place.deps, box=box.id)
    assert (await flakes.place.box(box.id)).state == "running"
    flakes.builder.lack = None
    flakes.place.clock.advance(HEAD_RESTS)
    for _ in range(3):
        await flakes.place.upkeep()
    await flakes.place.worker.jobs["boxes.revive"](flakes.place.deps, box=box.id)
    assert await flakes.state(head) == "ready"
    assert (await flakes.place.driver.inspect(box.id)).state == "running"


async def test_a_box_that_is_started_anew_has_the_environment_that_it_had(flakes: Flakes) -> None:
    await flakes.push("b")
    lease = await flakes.place.open_task()
    box = await flakes.place.running_box(lease.handle)
    await flakes.push("c")
    await flakes.place.work()
    await flakes.place.driver.kill_agent(box.id)
    await flakes.place.worker.jobs["boxes.revive"](flakes.place.deps, box=box.id)
    again = [spec for spec in flakes.place.driver.specs if spec.box == box.id]
    assert len(again) == 2
    assert again[0].equipment == again[1].equipment is not None


async def test_a_setup_that_fails_makes_no_box_and_is_the_heads_failure(flakes: Flakes) -> None:
    await flakes.push("b", setup="exit 3\n")
    lease = await flakes.place.open_task()
    box = await flakes.place.new_box(lease.handle)
    assert isinstance(box, Box)
    await flakes.place.work()
    flakes.place.clock.advance(timedelta(seconds=9))
    (listed,) = [line.box for line in await _listed(flakes, lease.handle)]
    assert listed.doing == "running the repository's setup, 9 s so far"
    told = "the repository's setup failed with exit 3. It printed:\nno such file"
    assert await agents.events(flakes.place.deps, flakes.place.agent(box.id), [Failed(told, setup=True)])
    after = await flakes.place.box(box.id)
    assert (after.state, after.failure, after.incarnation) == ("failed", told, 1)  # one try: the next says the same
    assert (await flakes.watch()).failure == told


async def test_a_setup_that_keeps_failing_is_tried_less_and_less_often_until_somebody_asks(flakes: Flakes) -> None:
    place = flakes.place

    async def tries(minutes: int) -> int:
        """How many warm boxes there were in so many minutes, each of which fails at once."""
        made = 0
        for _ in range(minutes):
            place.clock.advance(HEAD_RESTS)
            await place.upkeep()
            for box in [box for box in await place.all_boxes() if box.state == "starting"]:
                assert await agents.events(place.deps, place.agent(box.id), [Failed("exit 3", setup=True)])
                made += 1
        return made

    await flakes.push("b", setup="exit 3\n")
    assert await tries(1) == 1
    assert await tries(64) == 7  # after 1, 1, 2, 4, 8, 16, 32 minutes
    assert await tries(600) == 10
    await place.watch(1)
    assert await tries(8) == 4
    await flakes.push("c", setup="exit 3\n")
    assert await tries(8) == 4


async def test_a_setup_has_its_time_before_its_box_counts_as_stuck(flakes: Flakes) -> None:
    await flakes.push("b", setup="make\n")
    lease = await flakes.place.open_task()
    box = await flakes.place.new_box(lease.handle)
    assert isinstance(box, Box)
    await flakes.place.work()
    flakes.place.clock.advance(timedelta(minutes=31))
    await flakes.place.worker.jobs["boxes.start"](flakes.place.deps, box=box.id)
    assert (await flakes.place.box(box.id)).state == "starting"
    flakes.place.clock.advance(timedelta(minutes=2))
    await flakes.place.worker.jobs["boxes.start"](flakes.place.deps, box=box.id)
    assert "did not come up in 32 minutes" in ((await flakes.place.box(box.id)).failure or "")


async def _listed(flakes: Flakes, handle: str) -> list[BoxLine]:
    lines = await boxes.list_boxes(flakes.place.deps, flakes.place.act(tool="rift_vm_ls"), handle)
    assert not isinstance(lines, Refusal)
    return lines
