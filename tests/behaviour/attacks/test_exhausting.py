"""From inside a jail: taking all there is of memory, processes, disk and time harms nobody else and ends at a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands
from tests.behaviour.stack.stack import Stack

from keel.testing import eventually

MIB = 2**20
ATTEMPTS = {
    "a fork bomb": (":() { : | : & }; :; sleep 5; exit 1", ("limit of 200 processes", "Resource temporarily")),
    "100 GiB of zeros": ("head -c 100G /dev/zero > zeros", ("disk full (limit 256 MiB",)),
    "100 GiB of output": ("head -c 100G /dev/zero", ("stopped after 5 s", "disk full")),
    "memory without end": ("python3 -c 'b = []\nwhile True: b.append(bytes(1 << 20))'", ("256 MiB", "MemoryError")),
    "files without end": (
        'python3 -c \'n = 0\nwhile True:\n open("f%d" % n, "w").close(); n += 1\'',
        ("disk full (limit 256 MiB", "stopped after 5 s"),
    ),
    "a spinning command": ("while :; do :; done", ("stopped after 5 s",)),
}
"""What is run for five seconds, and what its answer says, of which one is enough: which it is tells what holds it."""


@pytest.fixture
async def confined(stack: Stack, hands: Hands) -> AsyncIterator[Hands]:
    """A box of a repository whose boxes may have little."""
    name = f"small-{hands.id[5:]}"
    program.git(stack.data / "origin", "branch", name)
    (repo,) = stack.sql("SELECT id FROM repos WHERE name = 'app'")
    stack.sql(
        "INSERT INTO limits (repo, memory, processes, disk) VALUES (%(repo)s, %(memory)s, 200, %(disk)s)",
        repo=repo["id"],
        memory=256 * MIB,
        disk=256 * MIB,
    )
    try:

        async def watched() -> bool:  # once the branch was seen
            return (await hands.call("rift_watch", repo=program.REPO, ref=name, warm=0)).refused is None

        await eventually(watched, within=60, every=0.5)
        await hands.take(name)
        yield hands
        await hands.call("rift_unwatch", repo=program.REPO, ref=name)
    finally:
        stack.sql("DELETE FROM limits")
        program.git(stack.data / "origin", "branch", "-D", name)


async def test_taking_without_end_stops_at_a_limit_while_others_are_served(confined: Hands, desk: Hands) -> None:
    for attempt, (command, causes) in ATTEMPTS.items():
        running = asyncio.create_task(confined.bash(command, timeout=5))  # its output is not read to its end
        served = 0
        while not running.done():  # the neighbour, and everybody's calls, meanwhile
            said = await desk.bash("echo served", block_for=40)
            assert said["output"] == "served\n", said.text
            assert (await desk.call("rift_task_ls")).refused is None
            served += 1
        assert served
        ended = await running
        assert ended["exit"] != 0, (attempt, ended.text)
        assert any(cause in ended.text for cause in causes), (attempt, ended.text[:2000])
        alive = await confined.bash("ls -d /proc/[0-9]* | wc -l")
        assert int(alive["output"]) < 12, (attempt, ended.text[:2000], alive.text)  # nothing of it goes on
        await confined.run("rm -rf zeros; find . -maxdepth 1 -name 'f[0-9]*' -delete; true")
        works = await confined.run("echo works")
        assert works["output"].endswith("works\n"), (attempt, works.text)


async def test_everything_at_once_leaves_a_box_that_can_be_destroyed_whole(confined: Hands, desk: Hands) -> None:
    for command, _ in list(ATTEMPTS.values())[:4]:
        await confined.bash(command, timeout=10, block_for=0)
    assert (await desk.bash("echo served"))["output"] == "served\n"
    gone = await confined.call("rift_vm_destroy", task=confined.task, vm=confined.vm)
    assert gone.refused is None
    assert confined.vm not in confined.stack.boxes
    assert not confined.stack.processes(confined.vm)
