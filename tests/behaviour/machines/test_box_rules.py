"""Rules of boxes that a story shows best: how long a start may take, what survives a failure, who loses what."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from tests.behaviour.machines.harness import Place, mute, silent

from keel.refusal import Refusal
from rift.agents import actions as agents
from rift.agents.model import Up
from rift.boxes import actions as boxes
from rift.boxes import jobs as box_jobs
from rift.boxes.model import Box
from rift.commands.model import Answer, End
from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.boxes.protocol import DriverError
from rift.origins import actions as origins
from rift.repos import actions as repos
from rift.repos.model import Network


async def started(rift: Place, task: str) -> str:
    """A box that nobody has started yet."""
    box = await rift.new_box(task)
    assert isinstance(box, Box)
    return box.id


async def test_a_start_has_two_minutes_from_when_it_began_however_long_it_waited(rift: Place) -> None:
    box = await started(rift, (await rift.open_task()).handle)
    rift.clock.advance(timedelta(minutes=10))  # nobody worked
    await rift.work()
    await rift.upkeep()
    assert (await rift.box(box)).state == "starting"
    rift.clock.advance(120)
    await rift.upkeep()
    assert (await rift.box(box)).state == "starting"
    rift.clock.advance(1)
    await rift.upkeep()
    after = await rift.box(box)
    assert (after.state, after.incarnation) == ("failed", 1)
    assert "did not come up in 2 minutes" in (after.failure or "")


async def test_a_box_whose_agent_dies_before_its_jail_is_up_is_started_three_times(rift: Place) -> None:
    box = await started(rift, (await rift.open_task()).handle)
    await rift.work()
    for incarnation in (1, 2, 3):
        after = await rift.box(box)
        assert (after.state, after.incarnation) == ("starting", incarnation)
        await rift.driver.kill_agent(box)
        await rift.upkeep()
    after = await rift.box(box)
    assert (after.state, after.failure) == ("failed", "it was started 3 times and did not come up")


async def test_a_start_that_the_driver_refuses_fails_the_box_with_the_whole_reason(rift: Place) -> None:
    task = (await rift.open_task()).handle
    reason = "no space left on device\n" * 50
    rift.driver.fail_starts.append(reason)
    box = await started(rift, task)
    await rift.work()
    assert (await rift.box(box)).failure == reason
    refused = await rift.bash(task, box)
    assert isinstance(refused, Refusal)
    assert reason in refused.sentence


async def test_a_destruction_that_fails_is_tried_again_until_nothing_is_left(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    rift.driver.fail_destroy.append("busy")
    await rift.destroy(task, box)
    with pytest.raises(DriverError):
        await rift.work()
    assert (await rift.box(box)).state == "destroying"
    assert await rift.driver.inventory() == [box]
    await rift.upkeep()
    assert (await rift.box(box)).state == "destroyed"
    assert await rift.driver.inventory() == []


async def test_a_task_that_closes_itself_takes_its_boxes_along(rift: Place) -> None:
    task = await rift.open_task()
    box = (await rift.running_box(task.handle)).id
    rift.clock.advance(timedelta(hours=4))
    await rift.upkeep()
    assert (await rift.box(box)).state == "destroyed"
    assert (await rift.task(task.task.id)).status == "closed"
    assert await rift.driver.inventory() == []


async def test_who_left_an_organization_loses_its_boxes_at_the_next_upkeep(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    warm = {one.id for one in await rift.warm(1)}
    await rift.upkeep()
    assert (await rift.box(box)).state == "running"
    async with rift.deps.db.tx() as tx:
        await tx.run("DELETE FROM members WHERE user_id = %(ada)s", {"ada": rift.ada.user})
    refused = await rift.bash(task, box)
    assert isinstance(refused, Refusal)
    assert refused.code == "vm_not_member"
    await rift.upkeep()
    assert (await rift.box(box)).state == "destroyed"
    assert {one.id for one in await rift.all_boxes() if one.state == "running"} == warm


async def test_a_box_whose_agent_died_while_it_was_parked_is_started_anew_by_the_next_command(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    rift.driver.files(box)["/home/dev/app/notes"] = b"kept"
    assert isinstance(await rift.suspend(task, box), Box)
    await rift.driver.kill_agent(box)
    assert isinstance(await rift.bash(task, box), Answer)
    await rift.work()
    after = await rift.box(box)
    assert (after.state, after.incarnation) == ("running", 2)
    assert await agents.events(rift.deps, rift.agent(box), [Up()])
    work = await rift.poll(rift.agent(box))
    assert work is not None
    assert [one["n"] for one in work.commands] == [1]  # nobody took it before, so it is not lost
    assert rift.driver.files(box)["/home/dev/app/notes"] == b"kept"


async def test_a_box_keeps_its_checkout_in_its_place_when_its_repository_is_renamed(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    assert isinstance(await rift.suspend(task, box), Box)
    await rift.driver.kill_agent(box)
    assert not isinstance(await origins.rename(rift.deps, "acme/app", "acme/application"), Refusal)
    assert isinstance(await rift.bash(task, box), Answer)
    await rift.work()
    assert [spec.short_repository for spec in rift.driver.specs if spec.box == box] == ["app", "app"]
    assert (await rift.box(box)).repository == "acme/application"


async def test_a_box_whose_files_are_gone_from_the_host_has_failed_and_says_so(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.driver.destroy(box)
    await box_jobs.revive(rift.deps, box)
    assert (await rift.box(box)).failure == "its files are gone from the host"


async def test_what_a_host_has_of_boxes_that_should_not_be_there_is_swept(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    async with rift.deps.db.tx() as tx:
        await tx.run("UPDATE boxes SET state = 'destroyed', ended_at = now() WHERE id = %(id)s", {"id": box})
    await box_jobs.sweep(rift.deps)
    assert await rift.driver.inventory() == []


async def test_a_box_that_is_being_destroyed_while_the_host_is_swept_is_not_told_as_left_behind(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.destroy(task, box)

    class Meanwhile(FakeBoxes):
        """The same boxes; those that are being destroyed go as soon as they were listed."""

        async def inventory(self) -> list[str]:
            listed = await rift.driver.inventory()
            await box_jobs.destroy(rift.deps, box)
            return listed

    with capture_logs() as lines:
        await box_jobs.sweep(replace(rift.deps, boxes=Meanwhile(mute)))
    assert [line for line in lines if line["event"] == "box.left_behind"] == []
    assert await rift.driver.inventory() == []


async def test_a_command_that_waited_for_a_box_that_failed_did_not_run(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = await started(rift, task)
    assert isinstance(await rift.bash(task, box), Answer)
    rift.driver.fail_starts.append("no disk")
    await rift.work()
    got = await rift.output(task, (f"{box}.1", 0))
    assert isinstance(got, list)
    assert (got[0].report.status, got[0].report.reason) == ("did not run", "the box failed: no disk")


async def test_a_box_is_reached_through_the_task_that_holds_it_alone(rift: Place) -> None:
    mine, other = (await rift.open_task()).handle, (await rift.open_task()).handle
    theirs = (await rift.open_task(rift.bob)).handle
    box = (await rift.running_box(mine)).id
    assert isinstance(await rift.bash(mine, box), Answer)
    for task, who in ((other, rift.ada), (theirs, rift.bob)):
        refused = [
            await rift.bash(task, box, who=who),
            await rift.suspend(task, box, who),
            await rift.destroy(task, box, who),
            await rift.output(task, (f"{box}.1", 0), who=who),
            await rift.stop(task, f"{box}.1", who),
        ]
        codes = [one.code for one in refused if isinstance(one, Refusal)]
        assert codes == ["vm_unknown", "vm_unknown", "vm_unknown", "command_id", "command_id"]
    (row,) = await rift.rows("SELECT state, stop_wanted FROM commands")
    assert row == {"state": "queued", "stop_wanted": False}
    assert (await rift.box(box)).state == "running"


async def test_three_rounds_of_parking_and_resuming_keep_the_incarnation_and_the_files(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    rift.driver.files(box)["/home/dev/app/notes"] = b"kept"
    for n in (1, 2, 3):
        parked = await rift.suspend(task, box)
        assert isinstance(parked, Box)
        assert (parked.state, parked.epoch) == ("parked", 2 * n)
        assert (await rift.driver.inspect(box)).state == "parked"
        again = await rift.suspend(task, box)
        assert isinstance(again, Box)
        assert again.epoch == parked.epoch
        assert isinstance(await rift.bash(task, box), Answer)
        assert (await rift.driver.inspect(box)).state == "running"
        assert await rift.poll(rift.agent(box))
        assert await agents.events(rift.deps, rift.agent(box), [End(n, 0, None, 0, b"")])
    after = await rift.box(box)
    assert (after.state, after.incarnation, after.epoch) == ("running", 1, 7)
    assert rift.driver.files(box)["/home/dev/app/notes"] == b"kept"


async def test_reading_and_stopping_count_as_use_and_resume_nothing(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    assert isinstance(await rift.bash(task, box), Answer)
    assert await rift.poll(rift.agent(box))
    assert await agents.events(rift.deps, rift.agent(box), [End(1, 0, None, 0, b"")])
    assert isinstance(await rift.suspend(task, box), Box)
    for call in (rift.output(task, (f"{box}.1", 0)), rift.stop(task, f"{box}.1")):
        rift.clock.advance(60)
        assert not isinstance(await call, Refusal)
        after = await rift.box(box)
        assert (after.state, after.used_at) == ("parked", rift.clock.now())


async def test_warm_boxes_are_made_anew_when_what_they_may_reach_changes(rift: Place) -> None:
    old = {box.id for box in await rift.warm(2)}
    task = await rift.open_task()
    claimed = await rift.new_box(task.handle)
    assert isinstance(claimed, Box)
    await repos.set_network(rift.deps, "acme/app", Network(None, ("api.example.com",), ()))
    await rift.work()
    living = [box for box in await rift.all_boxes() if box.state in ("starting", "running")]
    assert {box.id for box in living} & old == {claimed.id}
    assert len([box for box in living if box.task is None]) == 2
    await repos.set_network(rift.deps, "acme/app", Network(None, (), ()))
    await rift.work()
    assert {box.id for box in await rift.all_boxes() if box.state in ("starting", "running")} == {
        box.id for box in living
    }


async def test_a_warm_box_that_knows_what_it_could_reach_before_is_not_claimed_any_more(rift: Place) -> None:
    """Not even by a call that comes before the pool was made anew."""
    old = {box.id for box in await rift.warm(2)}
    task = await rift.open_task()
    rift.clock.advance(1)
    await repos.set_network(rift.deps, "acme/app", Network("none", (), ()))
    rift.clock.advance(1)
    claimed = await boxes.new_box(rift.deps, rift.act(), task.handle, "app", "main", silent)
    assert isinstance(claimed, Box)
    assert claimed.id not in old


async def test_a_boxs_git_has_its_origin_without_the_credentials(rift: Place) -> None:
    """They are the control plane's; a jail holds none."""
    async with rift.deps.db.tx() as tx:
        await tx.run("UPDATE repos SET url = 'https://ada:s3cr3t@example.org/acme/app.git'", {})
    await rift.running_box((await rift.open_task()).handle)
    assert [spec.origin for spec in rift.driver.specs] == ["https://example.org/acme/app.git"]


async def test_a_commit_that_is_kept_for_a_box_that_is_gone_is_let_go(rift: Place) -> None:
    box = await rift.new_box((await rift.open_task()).handle)
    assert isinstance(box, Box)
    await rift.work()
    (mirror,) = rift.forge.mirrors.values()
    mirror.pins["b-gone"] = next(iter(mirror.commits))
    await rift.worker.jobs["boxes.sweep"](rift.deps)
    assert set(mirror.pins) == {box.id}
