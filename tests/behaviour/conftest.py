"""A whole Rift with real jails for each worker, and hands to work with: a shared VM, or a task of the test's own.

Here and not beside its tests, as those of `attacks` want it too: a fixture that another conftest imports is a second
one, and each worker would have two systems.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands
from tests.behaviour.stack.stack import Stack

from keel.testing.plugin import Cluster

_shared: dict[Stack, tuple[str, str]] = {}


@pytest.fixture(scope="session")
def stack(cluster: Cluster) -> Iterator[Stack]:
    """Rift, served by a process of its own. At the end nothing of any box may be left."""
    name = f"stack_{os.getpid()}"
    made = Stack(cluster.create(name))
    try:
        made.start()
        yield made
        asyncio.run(put_away(made))
        made.see_nothing_left()
    finally:
        made.end()
        cluster.drop(name)


async def put_away(stack: Stack) -> None:
    """Close what is open, and let the pool drain."""
    if stack.process is None:
        stack.start()
    hands = Hands(stack)
    for task in (await hands.call("rift_task_ls"))["tasks"]:
        taken = await hands.call("rift_task_attach", task=task["id"], takeover=True)
        await hands.call("rift_task_close", task=taken.found(r"^handle: (\S+)$"))
    for watched in stack.sql("SELECT ref FROM watches"):
        await hands.call("rift_unwatch", repo=program.REPO, ref=watched["ref"])


@pytest.fixture
async def hands(stack: Stack) -> AsyncIterator[Hands]:
    """Hands in a task of this test's own, without a VM yet. The task is closed after the test."""
    own = Hands(stack)
    await own.open()
    task = own.task
    yield own
    if own.task == task:
        await own.close()


@pytest.fixture
async def desk(stack: Stack) -> AsyncIterator[Hands]:
    """Hands at a VM that tests share, for commands that leave it as it was. What a test left open is stopped."""
    shared = Hands(stack)
    if stack in _shared:
        shared.task, shared.vm = _shared[stack]
    if not shared.task or (await shared.call("rift_vm_ls", task=shared.task)).refused:
        await shared.open("a desk for many")
        await shared.take()
        _shared[stack] = shared.task, shared.vm
    yield shared
    for vm in await shared.vms():
        for command in vm["open_commands"]:
            await shared.stop(command["id"])
