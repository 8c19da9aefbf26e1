"""Environments are built once for each head, by one worker, the newest first, and only while somebody waits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from tests.behaviour.environments.flakes import TEXT, TOOL, Flakes, commit
from tests.behaviour.machines.harness import HEAD

from keel.refusal import Refusal
from keel.testing import eventually
from rift.boxes.model import Box
from rift.environments import actions as environments
from rift.environments import jobs
from rift.environments.model import HELD_FOR, LOG_HEAD, LOG_READY, LOG_TAIL, TRIES
from rift.names import HEAD_RESTS
from rift.origins import actions as origins
from rift.repos import actions as repos


async def test_a_new_head_is_built_and_its_boxes_have_what_its_flake_says(flakes: Flakes) -> None:
    head = await flakes.push("b", setup="make\n")
    await flakes.place.work()
    assert (await flakes.state(head), len(flakes.builder.began)) == ("ready", 1)
    spec = flakes.place.driver.specs[-1]
    assert spec.commit == head
    assert spec.equipment is not None
    assert (spec.equipment.paths, spec.equipment.env) == ((TOOL,), (("HELLO", "world"),))
    assert (spec.equipment.setup, spec.equipment.setup_seconds) == ("make\n", 1800)


async def test_a_head_without_a_flake_of_ours_has_the_base_and_nothing_is_built(flakes: Flakes) -> None:
    await flakes.place.work()
    assert await flakes.state(HEAD) == "ready"
    assert flakes.builder.began == []
    assert flakes.place.driver.specs[-1].equipment is None


async def test_no_warm_box_is_made_before_its_environment_is_there(flakes: Flakes) -> None:
    await flakes.place.work()
    done = flakes.hold("b")
    head = await flakes.push("b")
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    await flakes.want()
    assert not [box for box in await flakes.place.all_boxes() if box.commit == head]
    assert [box.state for box in await flakes.place.all_boxes()] == ["destroying"]  # the old head's goes at once
    done.set()
    await building
    await flakes.place.work()
    assert [box.state for box in await flakes.place.all_boxes() if box.commit == head] == ["starting"]


async def test_a_build_that_fails_is_the_last_failure_at_the_head_with_its_whole_text(flakes: Flakes) -> None:
    head = await flakes.push("b", broken=TEXT)
    await flakes.place.work()
    watch = await flakes.watch()
    assert (watch.failure, watch.failure_stays) == (TEXT, True)
    lease = await flakes.place.open_task()
    refused = await flakes.place.new_box(lease.handle)
    assert isinstance(refused, Refusal)
    assert refused.code == "head_failed"
    assert refused.facts["failure"] == TEXT
    assert not any("Retry" in type(mend).__name__ for mend in refused.mends)  # it would be the same in a minute
    assert not [box for box in await flakes.place.all_boxes() if box.commit == head]


async def test_a_build_that_failed_is_not_tried_again_before_somebody_asks(flakes: Flakes) -> None:
    head = await flakes.push("b", broken=TEXT)
    await flakes.place.work()
    for _ in range(3):
        flakes.place.clock.advance(timedelta(hours=1))
        await flakes.place.upkeep()
    assert len(flakes.builder.began) == 1
    assert (await flakes.watch()).failure == TEXT
    del flakes.builder.broken[head]
    await flakes.push("b")  # what it lacked is at its origin now; the head is the same
    await flakes.place.watch(1)
    assert (await flakes.watch()).failure is None
    await flakes.place.work()
    assert (await flakes.state(head), len(flakes.builder.began)) == ("ready", 2)


async def test_a_second_ref_at_a_commit_that_failed_says_so_without_another_build(flakes: Flakes) -> None:
    head = await flakes.push("b", broken=TEXT)
    await flakes.push("c", ref="next")
    watched = await repos.watch(flakes.place.deps, flakes.place.act(tool="rift_watch"), "acme/app", "next", 1)
    assert not isinstance(watched, Refusal)
    await flakes.place.work()
    flakes.place.clock.advance(timedelta(minutes=5))
    await flakes.push("b", ref="next", broken=TEXT)
    await flakes.place.work()
    assert (await flakes.watch("next")).failure == TEXT
    assert [build.rpartition("-")[2] for build in flakes.builder.began] == ["1", "1"]
    assert await flakes.state(head) == "failed"


async def test_a_head_that_moves_five_times_is_built_once_at_its_last(flakes: Flakes) -> None:
    flakes.hold("b")
    heads = [await flakes.push("b")]
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    for letter in "cdef":
        heads.append(await flakes.push(letter))
        await flakes.want()
    await building
    assert [await flakes.state(head) for head in heads] == [*["cancelled"] * 4, "ready"]
    assert flakes.builder.cancelled == flakes.builder.began[:1]
    assert len(flakes.builder.began) == 2


async def test_a_build_goes_on_while_another_watched_ref_has_its_commit(flakes: Flakes) -> None:
    await flakes.place.work()
    done = flakes.hold("b")
    old = await flakes.push("b", ref="stable")
    watched = await repos.watch(flakes.place.deps, flakes.place.act(tool="rift_watch"), "acme/app", "stable", 0)
    assert not isinstance(watched, Refusal)
    await flakes.push("b")
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    new = await flakes.push("c")
    await flakes.want()
    assert await flakes.needed(old)
    assert (await flakes.state(old), await flakes.state(new)) == ("building", "waiting")
    done.set()
    await building
    assert (await flakes.state(old), await flakes.state(new), flakes.builder.cancelled) == ("ready", "ready", [])


async def test_a_build_goes_on_while_a_box_waits_for_it(flakes: Flakes) -> None:
    done = flakes.hold("b")
    old = await flakes.push("b")
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    lease = await flakes.place.open_task()
    box = await flakes.place.new_box(lease.handle)
    assert isinstance(box, Box)
    await flakes.push("c")
    await flakes.want()
    assert await flakes.needed(old)
    await flakes.place.close_task(lease.handle)  # and now nobody does
    await building
    assert await flakes.state(old) == "cancelled"
    assert flakes.builder.cancelled == flakes.builder.began[:1]
    done.set()


async def test_a_ref_that_is_unwatched_while_it_is_built_ends_the_build(flakes: Flakes) -> None:
    flakes.hold("b")
    head = await flakes.push("b")
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    gone = await repos.unwatch(flakes.place.deps, flakes.place.act(tool="rift_unwatch"), "acme/app", "main")
    assert not isinstance(gone, Refusal)
    await building
    assert (await flakes.state(head), len(flakes.builder.cancelled)) == ("cancelled", 1)


async def test_of_two_workers_one_builds(flakes: Flakes) -> None:
    done = flakes.hold("b")
    head = await flakes.push("b")
    await flakes.want()
    first = flakes.build()
    await eventually(lambda: flakes.builder.began)
    await flakes.build()  # finds nothing to do
    done.set()
    await first
    assert (await flakes.state(head), len(flakes.builder.began)) == ("ready", 1)


async def test_what_a_killed_worker_built_is_taken_up_and_nothing_of_it_is_written(flakes: Flakes) -> None:
    head = await flakes.push("b")
    await flakes.want()
    killed = await environments.take(flakes.place.deps, flakes.place.repo.id)  # and this is the last of that worker
    assert killed is not None
    await flakes.place.upkeep()
    assert await flakes.state(head) == "building"
    flakes.place.clock.advance(HELD_FOR + timedelta(seconds=1))
    await flakes.place.upkeep()
    found = await flakes.of(head)
    assert found is not None
    assert (found.state, found.epoch, flakes.builder.began) == ("ready", 2, [found.build])
    assert not await environments.ready(flakes.place.deps, killed, None, "", 0)
    assert not await environments.fail(flakes.place.deps, killed, "too late", stays=True)
    await environments.put_log(flakes.place.deps, killed, 0, b"too late")
    assert await environments.keep(flakes.place.deps, killed) is None
    assert await flakes.of(head) == found
    assert await flakes.log(head) == b""


async def test_a_worker_that_ends_puts_its_build_back(flakes: Flakes) -> None:
    done = flakes.hold("b")
    head = await flakes.push("b")
    await flakes.want()
    building = flakes.build()
    await eventually(lambda: flakes.builder.began)
    building.cancel()
    with suppress(asyncio.CancelledError):
        await building
    assert (await flakes.state(head), len(flakes.builder.cancelled)) == ("waiting", 1)
    done.set()
    await flakes.place.upkeep()
    assert await flakes.state(head) == "ready"


async def test_a_build_that_is_interrupted_again_and_again_fails_and_is_tried_after_a_rest(flakes: Flakes) -> None:
    head = await flakes.push("b")
    flakes.builder.interrupted = ["it was killed"] * TRIES
    for _ in range(TRIES + 2):
        await flakes.place.upkeep()
    assert len(flakes.builder.began) == TRIES
    watch = await flakes.watch()
    assert watch.failure == f"It was begun {TRIES} times and interrupted: it was killed"
    assert not watch.failure_stays
    flakes.place.clock.advance(HEAD_RESTS)
    await flakes.place.upkeep()
    await flakes.place.upkeep()
    assert await flakes.state(head) == "ready"
    assert (await flakes.watch()).failure is None


async def test_a_build_whose_outcome_cannot_be_kept_is_begun_no_more_often_than_another_that_fails(
    flakes: Flakes,
) -> None:
    head = await flakes.push("b")
    odd = (("HELLO", "no text of a database has \0"),)
    flakes.builder.flakes[head] = replace(flakes.builder.flakes[head], env=odd)
    for _ in range(TRIES + 2):
        await flakes.place.upkeep()
    assert (await flakes.state(head), len(flakes.builder.began)) == ("failed", TRIES)


async def test_what_the_host_lacks_is_looked_for_again_after_a_rest(flakes: Flakes) -> None:
    head = await flakes.push("b")
    flakes.builder.lack = "There is no Nix on this host: `apt install nix-bin`."
    await flakes.place.work()
    watch = await flakes.watch()
    assert (watch.failure, watch.failure_stays) == (flakes.builder.lack, False)
    flakes.builder.lack = None
    await flakes.place.upkeep()
    assert await flakes.state(head) == "failed"
    flakes.place.clock.advance(HEAD_RESTS)
    await flakes.place.upkeep()
    await flakes.place.upkeep()
    assert await flakes.state(head) == "ready"


async def test_only_so_many_are_built_at_once_and_the_next_begins_when_one_ends(flakes: Flakes) -> None:
    settings = flakes.place.deps.settings
    one = settings.model_copy(update={"environments": settings.environments.model_copy(update={"at_once": 1})})
    deps = replace(flakes.place.deps, settings=one)
    other = await origins.add_repo(deps, None, "acme/other", "https://example.org/acme/app.git")
    assert not isinstance(other, Refusal)
    done = flakes.hold("b")
    head = await flakes.push("b")
    await origins.sync_repo(deps, other.id)
    watched = await repos.watch(deps, flakes.place.act(tool="rift_watch"), "acme/other", "main", 0)
    assert not isinstance(watched, Refusal)
    await flakes.want()
    building = asyncio.create_task(jobs.build(deps, flakes.place.repo.id))
    await eventually(lambda: flakes.builder.began)
    await jobs.build(deps, other.id)
    async with deps.db.tx() as tx:
        waiting = await environments.of_head(tx, other.id, head)
    assert waiting is not None
    assert (waiting.state, waiting.step, waiting.tries) == ("waiting", "gathered", 0)
    done.set()
    await building
    await flakes.place.work()
    async with deps.db.tx() as tx:
        after = await environments.of_head(tx, other.id, head)
    assert after is not None
    assert after.state == "ready"
    assert flakes.place.forge.gathered.count(("https://example.org/acme/app.git", head)) == 2  # once for each


async def test_what_a_build_says_is_there_while_it_goes(flakes: Flakes) -> None:
    done = flakes.hold("b")
    flakes.builder.says[commit("b")] = b"building 1 of 2\n"
    head = await flakes.push("b")
    await flakes.want()
    with flakes.place.deps.signals.on(environments.topic(flakes.place.repo.id)) as told:
        building = flakes.build()
        await eventually(lambda: flakes.log(head))
        assert await told.wait(5.0)
    assert await flakes.log(head) == b"building 1 of 2\n"
    assert await flakes.log(head, 9) == b"1 of 2\n"
    flakes.builder.say(flakes.builder.began[0], b"building 2 of 2\n")
    done.set()
    await building
    assert await flakes.log(head) == b"building 1 of 2\nbuilding 2 of 2\n"


async def test_of_a_success_the_end_of_the_log_is_kept_and_of_a_failure_all_but_the_middle(flakes: Flakes) -> None:
    flakes.builder.says[commit("b")] = bytes(range(256)) * (4 * LOG_READY // 256)
    ready = await flakes.push("b")
    await flakes.place.work()
    found = await flakes.of(ready)
    assert found is not None
    async with flakes.place.deps.db.tx() as tx:
        part = await environments.log_of(tx, found.id)
    assert part is not None
    assert part.size == 4 * LOG_READY
    assert LOG_READY <= len(part.data) == part.size - part.first < part.size + 1

    long = b"0123456789abcdef" * ((LOG_HEAD + LOG_TAIL) // 16) + b"x" * 600_000
    flakes.builder.says[commit("c")] = long
    failed = await flakes.push("c", broken="no such luck")
    await flakes.place.work()
    assert await flakes.state(failed) == "failed"
    kept, at = {}, 0
    found = await flakes.of(failed)
    assert found is not None
    while at < len(long):
        async with flakes.place.deps.db.tx() as tx:
            part = await environments.log_of(tx, found.id, at)
        assert part is not None
        kept[part.first] = part.data
        at = part.first + len(part.data)
    assert all(long[first : first + len(data)] == data for first, data in kept.items())
    gaps = [first for first in kept if first and not any(one + len(kept[one]) == first for one in kept)]
    assert len(gaps) == 1
    assert LOG_HEAD + LOG_TAIL - 2 * 256 * 1024 < sum(map(len, kept.values())) <= LOG_HEAD + LOG_TAIL + 256 * 1024
