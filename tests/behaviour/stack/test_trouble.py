"""What is interrupted: the server killed in the middle of a command, agents that fall silent, come back or die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.behaviour.stack.hands import Hands

from keel.testing import eventually


@asynccontextmanager
async def silent(hands: Hands) -> AsyncIterator[None]:
    """The box's agent stands still while the block lasts: what is sent meanwhile waits to start.

    The answer to the agent's last call for work is on its way already, so a first command goes with it.
    """
    agent = hands.stack.agent(hands.vm)
    os.kill(agent, signal.SIGSTOP)
    try:
        first = (await hands.bash("true", block_for=0))["command"]

        async def gone() -> bool:
            return any(one["id"] == first and one["started"] for one in (await hands.vms())[0]["open_commands"])

        await eventually(gone, within=10)
        yield
    finally:
        with suppress(ProcessLookupError):  # its box was destroyed meanwhile
            os.kill(agent, signal.SIGCONT)


def unheard(hands: Hands) -> None:
    """Let a minute pass in which the box's agent was not heard."""
    hands.stack.sql("UPDATE boxes SET seen_at = seen_at - interval '61 seconds' WHERE id = %(vm)s", vm=hands.vm)


def old(hands: Hands, id: str) -> None:
    """Let ten minutes pass since a command was sent."""
    hands.stack.sql(
        "UPDATE commands SET created_at = created_at - interval '10 minutes' WHERE box = %(vm)s AND n = %(n)s",
        vm=hands.vm,
        n=int(id.rpartition(".")[2]),
    )


async def test_kill_nine_of_the_server_loses_neither_a_command_nor_a_byte_of_its_output(hands: Hands) -> None:
    """Three kills while it prints; it is started once, and its output is what it wrote, each byte once."""
    await hands.take()
    await hands.bash("rm -f /tmp/starts")
    lines = 3000
    loop = (
        f"echo x >>/tmp/starts; n=0; while [ $n -lt {lines} ]; do echo line $n; n=$((n + 1)); sleep 0.002; done; exit 7"
    )
    said = await hands.bash(loop, timeout=120, block_for=0)
    id, offset, text = said["command"], 0, ""
    for _ in range(3):
        before = offset
        while offset < before + 200:  # it goes on printing
            said = await hands.output((id, offset), block_for=1)
            text, offset = text + said["output"], said["next_offset"]
        hands.stack.kill()
        hands.stack.start()
    last = await hands.until_ended(id, offset)
    assert (last["status"], last["exit"]) == ("finished", 7)
    assert text + last["output"] == "".join(f"line {n}\n" for n in range(lines))
    assert (await hands.bash("wc -l </tmp/starts"))["output"] == "1\n"


async def test_a_command_that_ended_while_the_server_was_away_is_told_when_it_is_back(hands: Hands) -> None:
    await hands.take()
    wait = "until test -e /home/dev/app/go; do sleep 0.02; done; echo went; exit 5"
    id = (await hands.bash(wait, block_for=0))["command"]
    hands.stack.kill()
    go = hands.stack.data / "boxes" / hands.vm / "home" / "app" / "go"
    go.touch()
    await eventually(lambda: not any("sleep 0.02" in line for line in hands.stack.processes(hands.vm)), within=10)
    hands.stack.start()
    ended = await hands.until_ended(id)
    assert (ended["status"], ended["exit"], ended["output"]) == ("finished", 5, "went\n")


async def test_a_call_that_hangs_up_leaves_its_command_running_and_counted(hands: Hands) -> None:
    await hands.take()
    calling = asyncio.create_task(hands.bash("until test -e /tmp/go; do sleep 0.05; done; echo went"))

    async def opened() -> str | None:
        (vm,) = await hands.vms()
        return vm["open_commands"][0]["id"] if vm["open_commands"] else None

    id = await eventually(opened, within=10)
    assert id is not None
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await hands.bash("touch /tmp/go")
    assert (await hands.until_ended(id))["output"] == "went\n"


async def test_a_command_whose_agent_falls_silent_is_lost_and_goes_on_when_it_comes_back(hands: Hands) -> None:
    await hands.take()
    id = (await hands.bash("echo begins; until test -e /tmp/go; do sleep 0.05; done; echo ends", block_for=2))[
        "command"
    ]
    async with silent(hands):
        unheard(hands)
        said = await hands.output((id, 0), block_for=45)
        assert said.seconds < 30
        assert said["status"] == "has not finished"
        assert said["reason"].startswith("lost: the box's agent is silent")
        assert "may have run in part" in said["reason"]
        assert "Do not send the command again." in said.text
        assert said.next is not None
        both = await hands.output((id, 0), (f"{hands.vm}.999", 0))
        assert both["ended"] == [id]

    async def back() -> bool:
        return str((await hands.output((id, 0)))["reason"]) == "running"

    await eventually(back, within=20, every=0.1)
    await hands.bash("touch /tmp/go")
    ended = await hands.until_ended(id)
    assert (ended["status"], ended["exit"], ended["output"]) == ("finished", 0, "begins\nends\n")


async def test_a_command_whose_agent_died_stays_lost_frees_its_slot_and_the_box_works_on(hands: Hands) -> None:
    await hands.take()
    await hands.bash("echo kept >~/kept")
    ids = [(await hands.bash("sleep 600", block_for=0))["command"] for _ in range(4)]

    async def all_run() -> bool:
        (vm,) = await hands.vms()
        return all(one["started"] for one in vm["open_commands"])

    await eventually(all_run, within=10)
    os.kill(hands.stack.agent(hands.vm), signal.SIGKILL)

    async def lost() -> bool:
        hands.stack.sql("UPDATE boxes SET seen_at = seen_at - interval '31 seconds' WHERE id = %(vm)s", vm=hands.vm)
        answer = await hands.output(*((id, 0) for id in ids))
        assert {one["status"] for one in answer["commands"]} == {"has not finished"}
        return {one["reason"].partition(";")[0] for one in answer["commands"]} == {"lost: the box's agent restarted"}

    await eventually(lost, within=40, every=0.2)
    assert (await hands.output(*((id, 0) for id in ids)))["ended"] == ids
    said = await hands.bash("cat ~/kept")
    assert (said["status"], said["output"]) == ("finished", "kept\n")


async def test_a_command_sent_after_its_agent_died_waits_for_the_next_one_and_runs_once(hands: Hands) -> None:
    await hands.take()
    agent = hands.stack.agent(hands.vm)
    os.kill(agent, signal.SIGKILL)
    await eventually(lambda: not os.path.exists(f"/proc/{agent}/fd/0"), within=10)
    said = await hands.bash("echo x >>~/runs; cat ~/runs", block_for=1)
    assert (said["status"], said["reason"]) == ("has not finished", "waiting to start")

    async def another() -> bool:
        hands.stack.sql("UPDATE boxes SET seen_at = seen_at - interval '31 seconds' WHERE id = %(vm)s", vm=hands.vm)
        return hands.stack.sql("SELECT incarnation FROM boxes WHERE id = %(vm)s", vm=hands.vm) == [{"incarnation": 2}]

    await eventually(another, within=40, every=0.2)
    ended = await hands.until_ended(said["command"])
    assert (ended["status"], ended["output"]) == ("finished", "x\n")


async def test_a_command_that_no_agent_took_within_10_minutes_did_not_run_and_never_will(hands: Hands) -> None:
    await hands.take()
    async with silent(hands):
        said = await hands.bash("touch ~/ran", block_for=0)
        assert (said["status"], said["reason"]) == ("has not finished", "waiting to start")
        id = said["command"]
        old(hands, id)
        ended = await hands.output((id, 0), block_for=20)
        assert (ended["status"], ended["exit"], ended["size"]) == ("did not run", None, 0)
        assert ended["reason"] == "no agent took it within 10 minutes"
        assert ended.next is None
    assert (await hands.bash("ls ~/ran"))["exit"] == 2
    again = await hands.output((id, 0), (f"{hands.vm}.999", 0))
    assert [one["status"] for one in again["commands"]] == ["did not run", "did not run"]
    assert again["ended"] == [id]


async def test_a_command_stopped_before_it_started_does_not_run(hands: Hands) -> None:
    await hands.take()
    async with silent(hands):
        id = (await hands.bash("touch ~/ran", block_for=0))["command"]
        said = await hands.stop(id)
        assert (said["status"], said["reason"]) == ("did not run", "stopped by rift_stop before it started")
    assert (await hands.bash("ls ~/ran"))["exit"] == 2


async def test_a_stop_that_is_not_carried_out_yet_is_told_as_requested(hands: Hands) -> None:
    await hands.take()
    id = (await hands.bash("echo up; sleep 600", block_for=1))["command"]
    async with silent(hands):
        said = await hands.stop(id)
        assert (said["status"], said["reason"]) == ("has not finished", "running; a stop is requested")
        assert said.next is not None
    ended = await hands.until_ended(id)
    assert "rift_stop" in ended["reason"]


async def test_a_command_that_waits_when_its_box_is_destroyed_did_not_run(hands: Hands) -> None:
    await hands.take()
    async with silent(hands):
        waits = (await hands.bash("true", block_for=0))["command"]
        waiting = asyncio.create_task(hands.output((waits, 0), block_for=45))
        destroying = asyncio.create_task(hands.call("rift_vm_destroy", task=hands.task, vm=hands.vm))
        said = await waiting
        assert (said["status"], said["exit"]) == ("did not run", None)
        assert "destroyed" in said["reason"]
        await destroying


async def test_whoever_waits_is_told_when_the_task_is_taken_over_and_closed_meanwhile(hands: Hands) -> None:
    await hands.take()
    waiting = asyncio.create_task(hands.bash("sleep 600", block_for=45))

    async def runs() -> bool:
        (vm,) = await hands.vms()
        return any(one["started"] for one in vm["open_commands"])

    await eventually(runs, within=20)
    other = Hands(hands.stack, "ada again")
    taken = await other.call("rift_task_attach", task=hands.id, takeover=True)
    other.task = taken.found(r"^handle: (\S+)$")
    await other.close()
    said = await waiting
    assert (said["status"], said["exit"]) == ("finished", None)
    assert said["reason"].startswith("box destroyed")
    assert (await hands.output((said["command"], 0))).refused == "task_closed"
    await hands.open()
    await hands.close()
