"""Rules of commands that a story shows best: what counts as use, which tails are kept, what upkeep waits for."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.behaviour.machines.harness import Place, silent

from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.agents import actions as agents
from rift.boxes import jobs as box_jobs
from rift.boxes.model import Box
from rift.commands import actions as commands
from rift.commands.actions import Wanted
from rift.commands.model import Answer, End, Told
from rift.deadline import Deadline


async def tell(rift: Place, box: str, *ends: End) -> None:
    """The box's agent takes what waits, and reports these ends."""
    assert await rift.poll(rift.agent(box)) is not None
    assert await agents.events(rift.deps, rift.agent(box), ends)


async def read(rift: Place, task: str, id: str, offset: int = 0) -> Answer:
    got = await rift.output(task, (id, offset))
    assert not isinstance(got, Refusal), got.sentence
    return got[0]


async def test_a_box_is_in_use_as_long_as_a_command_runs_in_it(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.bash(task, box)
    assert await rift.poll(rift.agent(box))
    rift.clock.advance(timedelta(hours=2))
    await box_jobs.park(rift.deps, box)
    assert (await rift.box(box)).state == "running"
    assert await agents.events(rift.deps, rift.agent(box), [End(1, 0, None, 0, b"")])
    await box_jobs.park(rift.deps, box)
    assert (await rift.box(box)).state == "running"
    rift.clock.advance(timedelta(minutes=29, seconds=59))
    await box_jobs.park(rift.deps, box)
    assert (await rift.box(box)).state == "running"
    rift.clock.advance(1)
    await box_jobs.park(rift.deps, box)
    assert (await rift.box(box)).state == "parked"
    assert (await rift.driver.inspect(box)).state == "parked"


async def test_an_expiry_steps_around_a_command_that_somebody_holds(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    for _ in range(2):
        await rift.bash(task, box)
    rift.clock.advance(timedelta(minutes=10))
    async with asyncio.timeout(10), rift.deps.db.tx() as tx:
        await tx.run("UPDATE commands SET stop_wanted = false WHERE n = 1")
        await asyncio.create_task(commands.expire(rift.deps), context=contextvars.Context())
    rows = await rift.rows("SELECT n, state, reason FROM commands ORDER BY n")
    assert [row["state"] for row in rows] == ["queued", "unrun"]
    assert rows[1]["reason"] == "no agent took it within 10 minutes"
    await commands.expire(rift.deps)
    assert {row["state"] for row in await rift.rows("SELECT state FROM commands")} == {"unrun"}


async def test_the_tails_of_the_last_64_commands_are_kept_and_older_ones_are_not(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    for n in range(1, 67):
        assert isinstance(await rift.bash(task, box), Answer)
        await tell(rift, box, End(n, 0, None, 10_000, str(n % 10).encode() * 8192))
    kept = await rift.rows("SELECT n FROM commands WHERE tail IS NOT NULL ORDER BY n")
    assert [row["n"] for row in kept] == list(range(3, 67))
    assert isinstance(await rift.suspend(task, box), Box)
    old, last = await read(rift, task, f"{box}.2"), await read(rift, task, f"{box}.66", 10_000 - 8192)
    assert (old.piece.lacking, old.piece.why, old.piece.size) == ((0, 10_000), "parked", 10_000)
    assert (last.piece.output, last.piece.next_offset) == ("6" * 8192, 10_000)
    assert (await rift.box(box)).state == "parked"


async def test_a_tail_that_ends_after_64_others_were_sent_is_not_kept(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.bash(task, box)
    for n in range(2, 67):
        await rift.bash(task, box)
        await tell(rift, box, End(n, 0, None, 1, b"x"))
    await tell(rift, box, End(1, 0, None, 3, b"abc"))
    (row,) = await rift.rows("SELECT state, size, tail FROM commands WHERE n = 1")
    assert row == {"state": "finished", "size": 3, "tail": None}


async def test_bytes_before_the_tail_are_asked_of_the_box_while_it_is_awake(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.bash(task, box)
    whole = ("0123456é" * 2000).encode()
    await tell(rift, box, End(1, 0, None, len(whole), whole[-8192:]))

    async def answer() -> None:
        while True:
            work = await agents.work(rift.deps, rift.agent(box), Told(), None, 0)
            assert work is not None
            for ask in work.asks:
                start, most = int(str(ask["offset"])), int(str(ask["limit"]))
                data = whole[start : start + most]
                assert await agents.answer(rift.deps, rift.agent(box), str(ask["id"]), start, len(whole), data)
                return
            await asyncio.sleep(0)

    # a hasty clock gives an agent no time to answer; this one stands still
    patient = replace(rift.deps, clock=FakeClock(rift.clock.now()))
    got, _ = await asyncio.gather(
        commands.output(patient, rift.act(), Deadline(patient.clock, 53), task, [(f"{box}.1", 1)], 0, silent), answer()
    )
    assert not isinstance(got, Refusal)
    assert got[0].piece.output == whole[1:].decode()
    assert (got[0].piece.next_offset, got[0].piece.size) == (len(whole), len(whole))


async def test_a_write_carries_its_content_to_the_agent_and_nowhere_after(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    wanted = Wanted("write", "notes.txt", content="héllo\n")
    deadline = Deadline(rift.deps.clock, 53)
    got = await commands.run(rift.deps, rift.act(tool="rift_write"), deadline, task, box, wanted, 0, silent)
    assert isinstance(got, Answer)
    work = await rift.poll(rift.agent(box))
    assert work is not None
    assert work.commands == ({"n": 1, "kind": "write", "timeout": 45, "path": "notes.txt", "content": "héllo\n"},)
    assert await agents.events(rift.deps, rift.agent(box), [End(1, 0, None, 0, b"")])
    assert await rift.rows("SELECT content FROM commands") == [{"content": None}]


async def test_an_agent_that_was_unheard_for_a_minute_loses_its_commands_until_it_is_back(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.bash(task, box)
    assert await rift.poll(rift.agent(box))
    rift.clock.advance(59)
    assert (await read(rift, task, f"{box}.1")).report.reason == "running"
    rift.clock.advance(1)
    lost = (await read(rift, task, f"{box}.1")).report
    assert lost.status == "has not finished"
    assert lost.ended
    assert (lost.reason or "").startswith("lost")
    assert isinstance(await rift.stop(task, f"{box}.1"), Answer)
    work = await rift.poll(rift.agent(box), 1)
    assert work is not None
    assert work.stops == (1,)
    back = (await read(rift, task, f"{box}.1")).report
    assert (back.reason, back.ended) == ("running; a stop is requested", False)


async def test_a_picture_that_fits_its_tail_is_read_with_the_box_parked(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    small, large = b"\x89PNG" + b"s" * 100, b"\x89PNG" + b"l" * 9000
    for n, picture in ((1, small), (2, large)):
        await rift.bash(task, box)
        await tell(rift, box, End(n, 0, None, len(picture), picture[-8192:], "image/png"))
    assert isinstance(await rift.suspend(task, box), Box)
    fits, waits = await read(rift, task, f"{box}.1"), await read(rift, task, f"{box}.2")
    assert (fits.image, fits.piece.output, fits.unread) == (small, "", False)
    assert (waits.image, waits.piece.output, waits.piece.lacking) == (None, "", (0, len(large)))
    assert (waits.piece.why, waits.unread) == ("parked", False)


@pytest.mark.parametrize("odd", ["a\0b", "\ud800", "b-\n", "", "x" * 10_000, "\u202e"])
async def test_a_word_that_no_vm_can_have_is_refused_like_any_other(rift: Place, odd: str) -> None:
    task = (await rift.open_task()).handle
    await rift.running_box(task)
    vms = [await rift.bash(task, odd), await rift.suspend(task, odd), await rift.destroy(task, odd)]
    assert [one.code for one in vms if isinstance(one, Refusal)] == ["vm_unknown"] * 3
    ids = [await rift.stop(task, f"{odd}.1"), await rift.output(task, (f"{odd}.1", 0))]
    assert [one.code for one in ids if isinstance(one, Refusal)] == ["command_id"] * 2


async def test_an_offset_beyond_all_measure_is_past_the_end_once_the_box_says_how_much_there_is(rift: Place) -> None:
    task = (await rift.open_task()).handle
    box = (await rift.running_box(task)).id
    await rift.bash(task, box)
    assert await rift.poll(rift.agent(box))
    patient = replace(rift.deps, clock=FakeClock(rift.clock.now()))
    call = commands.output(patient, rift.act(), Deadline(patient.clock, 53), task, [(f"{box}.1", 10**400)], 0, silent)

    async def answer() -> None:
        while not (work := await rift.poll(rift.agent(box), 1)) or not work.asks:
            await asyncio.sleep(0)
        assert await agents.answer(rift.deps, rift.agent(box), str(work.asks[0]["id"]), 0, 7, b"")

    refused, _ = await asyncio.gather(call, answer())
    assert isinstance(refused, Refusal)
    assert refused.code == "offset_past_end"
