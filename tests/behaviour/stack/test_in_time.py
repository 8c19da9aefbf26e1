"""The longest that a call takes, measured: what never comes up or never resumes is answered for in time."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal

from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands

from keel.testing import eventually


async def test_each_of_the_five_tools_answers_within_55_seconds_by_a_box_that_never_resumes(hands: Hands) -> None:
    """All at once against a parked box whose agent stands still: nothing resumes it until all have answered."""
    await hands.take()
    await hands.suspend()
    agent = hands.stack.agent(hands.vm)
    os.kill(agent, signal.SIGSTOP)
    try:
        first = asyncio.create_task(hands.bash("echo one", block_for=45))

        async def sent() -> bool:
            (vm,) = await hands.vms()
            return bool(vm["open_commands"])

        await eventually(sent, within=20)
        said = await asyncio.gather(
            first,
            hands.read("README.md"),
            hands.write("/tmp/new", "x"),
            hands.output((f"{hands.vm}.1", 0), block_for=45),
            hands.stop(f"{hands.vm}.1"),
        )
    finally:
        os.kill(agent, signal.SIGCONT)
    assert [one.seconds < 55 for one in said] == [True] * 5, [one.seconds for one in said]
    assert {one["status"] for one in said} <= {"has not finished", "did not run"}
    for one in said[1:3]:
        assert one["status"] == "has not finished"
        assert "Do not send the command again." in one.text
        ended = await hands.until_ended(one["command"])
        assert (ended["status"], ended["exit"]) == ("finished", 0)


async def test_a_box_that_does_not_run_within_30_seconds_is_answered_with_the_call_to_poll(hands: Hands) -> None:
    """Its start waits for a lock of the host's that somebody else holds."""
    program.git(hands.stack.data / "origin", "branch", "-f", "slow")
    await hands.call("rift_watch", repo=program.REPO, ref="slow", warm=0)
    with (hands.stack.data / "boxes" / ".lock-uids").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = await hands.call("rift_vm_new", task=hands.task, repo=program.REPO, ref="slow")
        assert 29 < said.seconds < 35
        assert said.text.startswith("starting: it does not run yet; poll rift_vm_ls")
        assert said.next == ("rift_vm_ls", {"task": "<your handle>"})
        hands.vm = said.found(r"^id (\S+), name app-slow-1$")
        assert (await hands.suspend()).refused == "vm_starting"
    sent = await hands.bash("echo up", block_for=45)
    assert (sent["status"], sent["output"]) == ("finished", "up\n")
    assert await hands.status(hands.vm) == "running"
    await hands.call("rift_unwatch", repo=program.REPO, ref="slow")
