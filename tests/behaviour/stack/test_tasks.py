"""Tasks, their leases and clocks, over MCP. What hours would do to a row is done to it at once."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands, Said
from tests.behaviour.stack.stack import Stack

from keel.testing import eventually


def later(stack: Stack, task: str, minutes: float) -> None:
    """Let so many minutes of quiet pass for a task."""
    stack.sql(
        "UPDATE tasks SET activity_at = activity_at - %(quiet)s WHERE id = %(task)s",
        quiet=timedelta(minutes=minutes),
        task=task,
    )


def activity(stack: Stack, task: str) -> datetime:
    """Where a task's activity clock stands."""
    (row,) = stack.sql("SELECT activity_at FROM tasks WHERE id = %(task)s", task=task)
    at: datetime = row["activity_at"]
    return at


async def attach(hands: Hands, task: str, **more: object) -> Said:
    return await hands.call("rift_task_attach", task=task, **more)


def another(hands: Hands, who: str = "ada again") -> Hands:
    """A second session: the same person with another client, or somebody else."""
    return Hands(hands.stack, who)


async def test_a_task_has_an_id_a_name_an_owner_and_is_open_or_closed(stack: Stack) -> None:
    hands = Hands(stack)
    opened = await hands.call("rift_task_new", name="  mend\nthe build ")
    hands.task = opened.found(r"^handle: (\S+)$")
    assert re.fullmatch(r"task_[a-z2-9]{8}\.[\w-]{43}", hands.task)
    (row,) = stack.sql(
        "SELECT t.*, u.email FROM tasks t JOIN users u ON u.id = t.owner WHERE t.id = %(id)s", id=hands.id
    )
    assert (row["name"], row["email"], row["status"]) == ("mend the build", program.ADA, "open")
    assert (await hands.call("rift_task_close", task=hands.task)).refused is None
    (row,) = stack.sql("SELECT status FROM tasks WHERE id = %(id)s", id=hands.id)
    assert row["status"] == "closed"
    assert hands.id not in (await hands.call("rift_task_ls")).text


async def test_a_list_shows_who_has_a_task_and_its_boxes_and_no_handle(hands: Hands) -> None:
    vm = await hands.take()
    said = await hands.call("rift_task_ls")
    (mine,) = [task for task in said["tasks"] if task["id"] == hands.id]
    assert (mine["name"], mine["holder"]) == ("some work", "mcp:Claude")
    assert [one["id"] for one in mine["vms"]] == [vm]
    assert datetime.now(UTC) - datetime.fromisoformat(mine["last_activity"]) < timedelta(minutes=2)
    assert hands.task.partition(".")[2] not in said.text + str(said.structure)
    assert f'{hands.id} "some work": held by mcp:Claude since' in said.text
    await hands.call("rift_task_release", task=hands.task)
    freed = await hands.call("rift_task_ls")
    assert f'{hands.id} "some work": free' in freed.text
    hands.task = (await attach(hands, hands.id)).found(r"^handle: (\S+)$")
    await hands.close()


async def test_a_box_is_had_through_a_task_alone_and_belongs_to_it_alone(desk: Hands, hands: Hands) -> None:
    missing = await hands.call("rift_vm_new", repo=program.REPO, ref="main")
    assert missing.refused == "bad_arguments"
    assert "`task` is missing" in missing.text
    assert missing.mend("rift_task_new")
    for said in (
        await hands.bash("touch /tmp/never", vm=desk.vm),
        await hands.call("rift_vm_destroy", task=hands.task, vm=desk.vm),
        await hands.call("rift_vm_suspend", task=hands.task, vm=desk.vm),
    ):
        assert said.refused == "vm_unknown"
    for said in (await hands.output((f"{desk.vm}.1", 0)), await hands.stop(f"{desk.vm}.1")):
        assert said.refused == "command_id"
    assert (await desk.bash("ls /tmp/never"))["exit"] == 2
    assert await desk.status(desk.vm) == "running"


async def test_only_the_hash_of_a_secret_is_kept(hands: Hands) -> None:
    secret = hands.task.partition(".")[2]
    (row,) = hands.stack.sql("SELECT secret_sha256 FROM tasks WHERE id = %(id)s", id=hands.id)
    assert bytes(row["secret_sha256"]) == hashlib.sha256(secret.encode()).digest()
    await hands.call("rift_vm_ls", task=hands.task)
    await hands.call("rift_vm_destroy", task=hands.task, vm=hands.task)
    for table in ("tasks", "ledger", "ledger_texts", "commands", "boxes", "procrastinate_jobs"):
        found = hands.stack.sql(
            f"SELECT count(*) AS n FROM {table} t WHERE t::text LIKE %(secret)s", secret=f"%{secret}%"
        )
        assert found == [{"n": 0}], table
    assert secret not in (hands.stack.data / "log").read_text()


async def test_the_id_alone_buys_nothing(hands: Hands) -> None:
    for tool, more in (
        ("rift_vm_ls", {}),
        ("rift_vm_new", {"repo": program.REPO, "ref": "main"}),
        ("rift_task_release", {}),
        ("rift_task_close", {}),
    ):
        said = await hands.call(tool, task=hands.id, **more)
        assert said.refused == "bare_task_id"
        assert said.mend("rift_task_attach") == {"task": hands.id}
    assert (await hands.vms()) == []


async def test_attaching_mints_a_new_secret_and_the_previous_handle_stops_working(hands: Hands) -> None:
    other = another(hands)
    taken = await attach(other, hands.id, takeover=True)
    other.task = taken.found(r"^handle: (\S+)$")
    assert other.task != hands.task
    assert other.id == hands.id
    stale = await hands.call("rift_vm_ls", task=hands.task)
    assert stale.refused == "task_held"
    assert "held by mcp:Cursor since " in stale.text
    assert stale.mend("rift_task_attach") == {"task": hands.id, "takeover": True}
    assert "Tell the user: " in stale.text
    assert (await other.call("rift_vm_ls", task=other.task)).refused is None
    hands.task = other.task


async def test_of_many_attaches_at_once_one_handle_is_alive(hands: Hands) -> None:
    old = hands.task
    taken = await asyncio.gather(*(attach(another(hands), hands.id, takeover=True) for _ in range(8)))
    handles = [old, *(said.found(r"^handle: (\S+)$") for said in taken)]
    tried = [await hands.call("rift_vm_ls", task=handle) for handle in handles]
    alive = [handle for handle, said in zip(handles, tried, strict=True) if said.refused is None]
    assert len(alive) == 1
    assert {said.refused for said in tried} == {None, "task_held"}
    hands.task = alive[0]


async def test_whoever_carries_the_handle_is_the_holder_also_many_at_once(hands: Hands) -> None:
    """Sub-agents share the handle: by possession, not by who calls or from which connection or client."""
    sharing = [Hands(hands.stack, who, hands.task) for who in ("ada", "ada", "ada again")]
    assert [said.refused for said in await asyncio.gather(*(
        one.call("rift_vm_ls", task=one.task) for one in sharing
    ))] == [None, None, None]  # fmt: skip
    (mine,) = [task for task in (await hands.call("rift_task_ls"))["tasks"] if task["id"] == hands.id]
    assert mine["holder"] == "mcp:Claude"


async def test_the_holder_is_the_label_of_the_token_that_attached(hands: Hands) -> None:
    """Each request also names a client of its own (`raw`), which counts for nothing."""
    other = another(hands)
    hands.task = (await attach(other, hands.id, takeover=True)).found(r"^handle: (\S+)$")
    (mine,) = [task for task in (await other.call("rift_task_ls"))["tasks"] if task["id"] == hands.id]
    assert mine["holder"] == "mcp:Cursor"


async def test_any_call_under_a_good_handle_is_activity_noted_at_most_once_a_minute(hands: Hands) -> None:
    await hands.take()
    id = (await hands.bash("echo x"))["command"]
    calls: tuple[Callable[[], Awaitable[Said]], ...] = (
        lambda: hands.call("rift_vm_ls", task=hands.task),
        lambda: hands.bash("true"),
        lambda: hands.read("README.md"),
        lambda: hands.write("/tmp/x", "x"),
        lambda: hands.output((id, 0)),
        lambda: hands.stop(id),
        lambda: hands.suspend(),
        lambda: hands.call("rift_vm_destroy", task=hands.task, vm=hands.vm),
    )
    for call in calls:
        later(hands.stack, hands.id, 10)
        before = activity(hands.stack, hands.id)
        assert (await call()).refused is None
        at = activity(hands.stack, hands.id)
        assert at - before > timedelta(minutes=9)
        assert (await hands.call("rift_vm_ls", task=hands.task)).refused is None
        assert activity(hands.stack, hands.id) == at


async def test_a_call_under_a_bad_handle_is_no_activity(hands: Hands) -> None:
    later(hands.stack, hands.id, 10)
    before = activity(hands.stack, hands.id)
    wrong = hands.task[:-2] + ("aa" if hands.task[-2:] != "aa" else "bb")
    assert (await hands.call("rift_vm_ls", task=wrong)).refused == "task_held"
    assert (await hands.call("rift_vm_ls", task=hands.id)).refused == "bare_task_id"
    assert (await attach(hands, hands.id)).refused == "task_in_use"
    assert activity(hands.stack, hands.id) == before


async def test_a_lease_quiet_for_30_minutes_is_taken_up_without_asking_and_an_active_one_is_not(hands: Hands) -> None:
    later(hands.stack, hands.id, 29)
    refused = await attach(another(hands), hands.id)
    assert refused.refused == "task_in_use"
    assert "held by mcp:Claude since" in refused.text
    assert refused.mend("rift_task_attach") == {"task": hands.id, "takeover": True}
    later(hands.stack, hands.id, 1.1)
    hands.task = (await attach(another(hands), hands.id)).found(r"^handle: (\S+)$")


async def test_a_task_quiet_for_4_hours_closes_itself_and_its_boxes_are_destroyed(stack: Stack) -> None:
    hands = Hands(stack)
    await hands.open()
    vm = await hands.take()
    later(stack, hands.id, 241)
    await eventually(lambda: vm not in stack.boxes, within=60, every=0.2)
    assert not stack.processes(vm)
    said = await hands.call("rift_vm_ls", task=hands.task)
    assert said.refused == "task_closed"
    assert "its VMs are gone" in said.text
    assert said.mend("rift_task_new")


async def test_a_touch_restarts_the_timer_of_4_hours(hands: Hands) -> None:
    for _ in range(3):
        later(hands.stack, hands.id, 239)
        assert (await hands.call("rift_vm_ls", task=hands.task)).refused is None


async def test_a_call_comes_too_late_for_a_task_at_its_limit(stack: Stack) -> None:
    hands = Hands(stack)
    await hands.open()
    later(stack, hands.id, 240)
    assert (await hands.call("rift_vm_ls", task=hands.task)).refused == "task_closed"
    assert (await attach(hands, hands.id, takeover=True)).refused == "task_closed"


async def test_a_task_of_somebody_else_is_told_like_one_that_does_not_exist(hands: Hands) -> None:
    grace = another(hands, "grace")
    for call in ("rift_vm_ls", "rift_task_release", "rift_task_close"):
        theirs = await grace.call(call, task=hands.task)
        nobodys = await grace.call(call, task=f"task_zzzzzzzz.{hands.task.partition('.')[2]}")
        assert theirs.refused == nobodys.refused == "task_unknown"
        assert theirs.text.replace(hands.id, "task_zzzzzzzz") == nobodys.text
        assert "There is no task" in theirs.text
        assert "of yours" in theirs.text
        assert theirs.mend("rift_task_ls") == {}
    assert (await attach(grace, hands.id, takeover=True)).refused == "task_unknown"
    assert hands.id not in (await grace.call("rift_task_ls")).text
    assert (await hands.call("rift_vm_ls", task=hands.task)).refused is None


@pytest.mark.parametrize("handle", ["", "nonsense", "task_", "TASK_abcdefgh.x", "b-000000000000000000000000"])
async def test_without_a_handle_the_tool_that_opens_a_task_is_named(stack: Stack, handle: str) -> None:
    said = await Hands(stack).call("rift_vm_ls", task=handle)
    assert said.refused in ("no_handle", "bad_arguments")
    assert said.mend("rift_task_new")


async def test_a_released_task_keeps_its_boxes_and_is_taken_up_by_attach(hands: Hands) -> None:
    vm = await hands.take()
    await hands.bash("echo kept >/tmp/kept")
    assert (await hands.call("rift_task_release", task=hands.task)).refused is None
    free = await hands.call("rift_vm_ls", task=hands.task)
    assert free.refused == "task_released"
    assert free.mend("rift_task_attach") == {"task": hands.id}
    other = Hands(hands.stack, "ada again", vm=vm)
    other.task = (await attach(other, hands.id)).found(r"^handle: (\S+)$")
    assert (await other.bash("cat /tmp/kept"))["output"] == "kept\n"
    hands.task = other.task


async def test_closing_a_task_destroys_every_box_in_it(stack: Stack) -> None:
    hands = Hands(stack)
    await hands.open()
    vms = {await hands.take(), await hands.take()}
    assert {vm["id"] for vm in await hands.vms()} == vms
    assert vms <= set(stack.boxes)
    said = await hands.call("rift_task_close", task=hands.task)
    assert all(vm in said.text for vm in vms)
    await eventually(lambda: not vms & set(stack.boxes), within=60, every=0.2)
    assert not [line for vm in vms for line in stack.processes(vm)]
    for call in ("rift_vm_ls", "rift_task_release", "rift_task_close"):
        closed = await hands.call(call, task=hands.task)
        assert closed.refused == "task_closed"
        assert closed.mend("rift_task_new")
