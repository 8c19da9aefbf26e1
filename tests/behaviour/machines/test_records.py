"""What is recorded without a call, and what of a task is forgotten when it is over."""

from __future__ import annotations

from datetime import timedelta

from tests.behaviour.machines.harness import Place

from keel.refusal import Refusal
from rift.agents import actions as agents
from rift.boxes import jobs as box_jobs
from rift.commands import jobs as command_jobs
from rift.commands.model import Answer, End
from rift.records import actions as records


async def upkeep_rows(rift: Place) -> list[tuple[str, str | None, str | None]]:
    found = await rift.rows("SELECT action, task, box FROM ledger WHERE via = 'upkeep' ORDER BY seq")
    return [(row["action"], row["task"], row["box"]) for row in found]


async def test_a_task_that_closes_itself_is_a_record_whether_upkeep_or_a_call_finds_it(rift: Place) -> None:
    first, second = await rift.open_task(), await rift.open_task()
    rift.clock.advance(timedelta(hours=4))
    assert isinstance(await rift.new_box(first.handle), Refusal)
    await rift.upkeep()
    await rift.upkeep()
    assert sorted(await upkeep_rows(rift)) == sorted(
        ("task closed itself", lease.task.id, None) for lease in (first, second)
    )


async def test_a_box_that_fails_is_a_record_once(rift: Place) -> None:
    lease = await rift.open_task()
    box = (await rift.running_box(lease.handle)).id
    await rift.driver.destroy(box)  # somebody removed its files from the host
    for _ in range(2):
        await box_jobs.revive(rift.deps, box)
    assert (await rift.box(box)).state == "failed"
    assert await upkeep_rows(rift) == [("box failed", lease.task.id, box)]


async def test_a_box_whose_owner_left_is_a_record(rift: Place) -> None:
    lease = await rift.open_task()
    box = (await rift.running_box(lease.handle)).id
    async with rift.deps.db.tx() as tx:
        await tx.run("DELETE FROM members WHERE user_id = %(user)s", {"user": rift.ada.user})
    await rift.upkeep()
    assert await upkeep_rows(rift) == [("box lost its member", lease.task.id, box)]


async def ended(rift: Place, task: str, text: str) -> str:
    """A box with one command that has ended, and one that has not."""
    box = (await rift.running_box(task)).id
    for _ in range(2):
        assert isinstance(await rift.bash(task, box, text), Answer)
    assert await rift.poll(rift.agent(box)) is not None
    assert await agents.events(rift.deps, rift.agent(box), [End(1, 0, None, 0, b"")])
    return box


async def test_the_commands_of_a_closed_task_go_a_day_later_and_no_others(rift: Place) -> None:
    closed, open = await rift.open_task(), await rift.open_task()
    gone, kept = await ended(rift, closed.handle, "make"), await ended(rift, open.handle, "make")
    await rift.close_task(closed.handle)
    await rift.work()
    rift.clock.advance(timedelta(days=1))
    await command_jobs.forget(rift.deps)
    count = "SELECT box, count(*) AS n FROM commands GROUP BY box ORDER BY box"
    assert {row["box"]: row["n"] for row in await rift.rows(count)} == {gone: 2, kept: 2}
    rift.clock.advance(1)
    await command_jobs.forget(rift.deps)
    assert {row["box"]: row["n"] for row in await rift.rows(count)} == {kept: 2}
    assert (await rift.box(gone)).state == "destroyed"


async def test_erasing_a_task_takes_the_texts_of_what_has_ended_and_leaves_what_runs(rift: Place) -> None:
    one, other = await rift.open_task(), await rift.open_task()
    mine, theirs = await ended(rift, one.handle, "make"), await ended(rift, other.handle, "make")
    gone = await records.erase(rift.deps, one.task.id)
    assert gone.commands == 1
    found = await rift.rows("SELECT box, n, input FROM commands ORDER BY n")
    assert {(row["box"], row["n"]): row["input"] for row in found} == {
        (mine, 1): "", (mine, 2): "make", (theirs, 1): "make", (theirs, 2): "make",
    }  # fmt: skip
    assert isinstance(await rift.output(one.handle, (f"{mine}.1", 0)), list)
