"""How much one person, one organization and one host may hold: of any number of calls at a limit, one gets the last."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.behaviour.machines.harness import HEAD, URL, Place, silent

from keel.refusal import Call, Refusal, Retry
from rift.boxes import actions as boxes
from rift.boxes.model import Box
from rift.hosts import actions as hosts
from rift.origins import actions as origins
from rift.settings import RiftSettings
from rift.tasks import actions as tasks
from rift.tasks.model import Lease

GIB = 2**30


def bounded(rift: Place, **most: object) -> Place:
    """The same Rift under other limits: `tasks` of a person, and settings of boxes."""
    own = {"per_person": most.pop("tasks")} if "tasks" in most else {}
    settings = RiftSettings.model_validate({"tasks": own, "boxes": most})
    return replace(rift, deps=replace(rift.deps, settings=settings))


async def watch(rift: Place, ref: str, warm: int) -> object:
    rift.forge.repositories[URL].setdefault(ref, HEAD)
    return await origins.watch(rift.deps, rift.act(tool="rift_watch"), "acme/app", ref, warm)


async def new(rift: Place, task: str, ref: str) -> Box | Refusal:
    return await boxes.new_box(rift.deps, rift.act(tool="rift_vm_new"), task, "acme/app", ref, silent)


async def counts(rift: Place) -> Counter[str]:
    """How many boxes of each ref live, claimed and warm alike."""
    return Counter(box.ref for box in await rift.all_boxes() if box.state not in ("destroying", "destroyed"))


def codes(found: list[object]) -> Counter[str]:
    return Counter(one.code if isinstance(one, Refusal) else "ok" for one in found)


async def test_one_token_that_opens_tasks_in_a_loop_is_stopped_at_the_limit_and_told_the_number(rift: Place) -> None:
    few = bounded(rift, tasks=7)
    found = [await tasks.open_task(few.deps, few.act(), f"task {n}") for n in range(40)]
    assert codes(list(found)) == {"ok": 7, "task_limit": 33}
    refused = found[-1]
    assert isinstance(refused, Refusal)
    assert "7 open tasks, and one person may have 7" in refused.sentence
    assert "Rift:Tasks:PerPerson" in str(refused.mends)
    first = found[0]
    assert isinstance(first, Lease)
    assert [mend.tool for mend in refused.mends if isinstance(mend, Call)][:2] == [
        "rift_task_close",
        "rift_task_attach",
    ]
    assert not isinstance(await few.close_task(first.handle), Refusal)
    assert isinstance(await tasks.open_task(few.deps, few.act(), "again"), Lease)
    assert isinstance(await tasks.open_task(few.deps, few.act(few.bob), "somebody else's"), Lease)


async def test_of_a_hundred_racing_task_openings_at_the_limit_exactly_the_last_room_is_won(rift: Place) -> None:
    few = bounded(rift, tasks=5)
    found = await asyncio.gather(*(tasks.open_task(few.deps, few.act(), "race") for _ in range(100)))
    assert codes(list(found)) == {"ok": 5, "task_limit": 95}


@pytest.mark.parametrize("warm", [0, 3])
async def test_of_a_hundred_racing_claims_at_a_persons_limit_exactly_as_many_win_as_fit(rift: Place, warm: int) -> None:
    few = bounded(rift, per_person=6)
    await few.warm(warm)
    handles = [(await few.open_task()).handle for _ in range(5)]
    found = await asyncio.gather(*(few.new_box(handles[n % 5]) for n in range(100)))
    assert codes(list(found)) == {"ok": 6, "vm_limit": 94}
    assert len({box.id for box in found if isinstance(box, Box)}) == 6


async def test_a_claim_at_a_persons_limit_names_the_vms_that_can_go_and_one_more_fits_once_one_went(
    rift: Place,
) -> None:
    few = bounded(rift, per_person=2)
    task, other = await few.open_task(), await few.open_task()
    here, there = await few.running_box(task.handle), await few.running_box(other.handle)
    refused = await few.new_box(task.handle)
    assert isinstance(refused, Refusal)
    assert refused.code == "vm_limit"
    destroy = next(mend for mend in refused.mends if isinstance(mend, Call))
    assert destroy == Call("rift_vm_destroy", {"task": "<your handle>", "vm": here.id})
    assert Call("rift_task_attach", {"task": other.task.id}) in refused.mends
    assert there.id not in str(refused.mends)
    await few.destroy(task.handle, here.id)
    assert isinstance(await few.new_box(task.handle), Box)


async def test_an_organization_has_no_more_boxes_than_it_may_its_warm_ones_counted(rift: Place) -> None:
    few = bounded(rift, per_organization=4)
    await watch(few, "dev", 0)
    task = (await few.open_task()).handle
    assert isinstance(await new(few, task, "dev"), Box)
    await few.watch(4)
    await few.work()
    assert await counts(few) == {"main": 3, "dev": 1}
    found = [await new(few, task, "dev") for _ in range(3)]  # people come before pools: warm ones give way
    assert codes(list(found)) == {"ok": 3}
    await few.work()
    await few.upkeep()
    assert await counts(few) == {"dev": 4}
    refused = await new(few, task, "main")
    assert isinstance(refused, Refusal)
    assert refused.code == "vm_org_limit"
    assert "personal has 4 VMs, and it may have 4" in refused.sentence


async def test_of_racing_claims_on_a_full_host_those_that_fit_win_and_no_warm_box_is_lost_to_a_refusal(
    rift: Place,
) -> None:
    few = bounded(rift, most=5)
    await watch(few, "dev", 0)
    await few.watch(2)
    await few.work()
    task = (await few.open_task()).handle
    found = await asyncio.gather(*(new(few, task, "dev") for _ in range(30)))
    assert codes(list(found)) == {"ok": 5, "host_full": 25}
    refused = next(one for one in found if isinstance(one, Refusal))
    assert "it has 5 VMs and holds 5" in refused.sentence
    await few.work()
    await few.upkeep()
    assert await counts(few) == {"dev": 5}


async def test_on_a_full_host_a_warm_box_at_hand_is_still_handed_out(rift: Place) -> None:
    few = bounded(rift, most=2)
    (first, *_) = await few.warm(2)
    task = (await few.open_task()).handle
    found = await few.new_box(task)
    assert isinstance(found, Box)
    assert found.state == "running"
    await few.work()
    assert len([box for box in await few.all_boxes() if box.state == "running"]) == 2  # none was made in its place
    assert first.id in {box.id for box in await few.all_boxes()}


async def test_a_cold_claim_on_a_host_short_of_disk_says_how_much_and_what_would_free_room(rift: Place) -> None:
    await watch(rift, "dev", 0)
    (warm,) = await rift.warm(1)
    task = (await rift.open_task()).handle
    mine = await new(rift, task, "dev")
    assert isinstance(mine, Box)
    rift.driver.host = replace(rift.driver.host, disk_free=GIB, memory_free=GIB // 4)
    await hosts.report(rift.deps)
    refused = await new(rift, task, "dev")
    assert isinstance(refused, Refusal)
    assert refused.code == "host_full"
    assert "1024 MiB of disk are free and 2048 MiB must stay free" in refused.sentence
    assert "256 MiB of memory are free and 512 MiB must stay free" in refused.sentence
    assert Call("rift_vm_destroy", {"task": "<your handle>", "vm": mine.id}) in refused.mends
    assert any(isinstance(mend, Retry) for mend in refused.mends)  # for a warm box gives way
    await rift.work()
    assert (await rift.box(warm.id)).state == "destroyed"
    assert not any(box.task is None and box.state == "starting" for box in await rift.all_boxes())
    again = await new(rift, task, "dev")
    assert isinstance(again, Refusal)
    assert not any(isinstance(mend, Retry) for mend in again.mends)  # nothing is left that could


async def test_pools_leave_the_last_room_to_people(rift: Place) -> None:
    rift.driver.host = replace(rift.driver.host, disk_free=3 * GIB)  # over the reserve, under twice as much
    await hosts.report(rift.deps)
    await rift.watch(2)
    await rift.work()
    assert await counts(rift) == {}
    assert isinstance(await rift.new_box((await rift.open_task()).handle), Box)
    rift.driver.host = replace(rift.driver.host, disk_free=9 * GIB)
    rift.clock.advance(10)
    await rift.upkeep()
    assert await counts(rift) == {"main": 3}


async def test_a_report_that_nobody_renews_holds_nothing_up(rift: Place) -> None:
    rift.driver.host = replace(rift.driver.host, disk_free=0)
    await hosts.report(rift.deps)
    task = (await rift.open_task()).handle
    assert isinstance(await rift.new_box(task), Refusal)
    rift.clock.advance(61)
    assert isinstance(await rift.new_box(task), Box)


async def test_an_older_report_does_not_replace_a_newer_one(rift: Place) -> None:
    await hosts.report(rift.deps)
    rift.clock.set(rift.clock.now() - timedelta(seconds=30))
    rift.driver.host = replace(rift.driver.host, disk_free=0)
    await hosts.report(rift.deps)
    assert isinstance(await rift.new_box((await rift.open_task()).handle), Box)


async def test_the_pools_of_an_organization_ask_for_no_more_than_it_may_have(rift: Place) -> None:
    few = bounded(rift, per_organization=10)
    assert not isinstance(await watch(few, "main", 7), Refusal)
    refused = await watch(few, "dev", 4)
    assert isinstance(refused, Refusal)
    assert refused.code == "warm_limit"
    assert "4 warm boxes at dev and 7 at the other watched refs" in refused.sentence
    assert Call("rift_watch", {"repo": "acme/app", "ref": "dev", "warm": 3}) in refused.mends
    assert not isinstance(await watch(few, "dev", 3), Refusal)
    smaller = bounded(rift, per_organization=5)  # the setting went down: what there is may stay, or shrink
    assert not isinstance(await watch(smaller, "main", 7), Refusal)
    assert not isinstance(await watch(smaller, "main", 6), Refusal)
    assert isinstance(await watch(smaller, "main", 7), Refusal)


async def test_two_watches_at_once_do_not_both_find_the_last_room(rift: Place) -> None:
    few, names = bounded(rift, per_organization=10), [f"acme/app{n}" for n in range(8)]
    for name in names:  # of repositories of their own, so that nothing but the organization holds them apart
        rift.forge.repositories[f"https://example.org/{name}.git"] = {"main": HEAD}
        assert not isinstance(await origins.add_repo(rift.deps, None, name, f"https://example.org/{name}.git"), Refusal)
    found = await asyncio.gather(*(origins.watch(few.deps, few.act(), name, "main", 4) for name in names))
    assert codes(list(found)) == {"ok": 2, "warm_limit": 6}
