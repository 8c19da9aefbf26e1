"""A system's life: Ctrl-C and up again, down and up again, two processes in place of one, a database that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import SAMPLE, Running, folder, processes, rift, system

from keel.clock import SystemClock
from keel.testing import eventually

TICKS = "touch on; n=0; while test -e on; do n=$((n+1)); echo tick $n >>ticks; sleep 0.05; done"


@pytest.fixture(scope="module")
def up() -> Iterator[Running]:
    with system() as one:
        yield one


async def output(up: Running, task: str, command: str, block_for: int = 30) -> dict[str, object]:
    """What has become of a command."""
    asked = [{"id": command, "offset": 0}]
    return (await up.call("rift_output", task=task, commands=asked, block_for=block_for))[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_stopped_server_says_how_many_boxes_live_on_and_their_commands_do(
    up: Running, number: signal.Signals
) -> None:
    if up.process is None:
        up.up()
    task, box = await up.take()
    ticking = await up.bash(task, box, TICKS, timeout=600, block_for=0)
    waits = [
        asyncio.create_task(up.bash(task, box, "sleep 300", timeout=600, block_for=45)),
        asyncio.create_task(output(up, task, ticking["command"], block_for=45)),
    ]
    await up.bash(task, box, "until test -e ticks; do sleep 0.02; done")  # the other two are parked by now

    rest = await asyncio.to_thread(up.end, number)
    assert "The server has stopped; " in rest
    assert any(lives in rest for lives in ("1 box lives on", "2 boxes live on", "3 boxes live on")), rest
    assert f"down --data {up.data}` stops boxes and database too." in rest
    for answered in await asyncio.gather(*waits):
        assert answered["status"] == "has not finished"
    assert [line for line in up.errors().splitlines() if "Starting the database" not in line] == []

    clock = SystemClock()
    began, token = clock.monotonic(), up.token
    up.up()
    assert clock.monotonic() - began < 10
    assert up.token == token
    assert token not in "\n".join(up.said)
    assert "token new --user" in "\n".join(up.said)
    assert len(rift("token", "ls", "--json", "--data", up.data).json) == 1

    after = await up.bash(task, box, "wc -l <ticks; rm on")
    assert int(after["output"]) > 0
    ended = await output(up, task, ticking["command"])
    assert (ended["status"], ended["exit"]) == ("finished", 0)
    assert up.process
    await up.call("rift_task_close", task=task)


async def test_down_ends_every_process_and_up_brings_boxes_back_with_their_files(up: Running) -> None:
    if up.process is None:
        up.up()
    task, box = await up.take()
    await up.bash(task, box, "echo kept >/home/dev/kept")
    lost = await up.bash(task, box, "sleep 300", timeout=600, block_for=0)

    assert up.process
    told = rift("down", "--data", up.data)
    assert told.status == 0
    assert told.out.startswith(f"Rift on {up.data} is down; ")
    assert "were stopped." in told.out or "was stopped." in told.out
    assert f"up --data {up.data}` brings" in told.out
    assert up.process.wait(timeout=10) == 0
    assert "The server has stopped" in up.process.communicate()[0]
    up.process = None
    assert processes(up.data) == []
    again = rift("down", "--data", up.data)
    assert (again.status, again.out) == (0, f"No server ran on {up.data}; 0 boxes were stopped.\n")

    up.up()

    async def back() -> bool:
        reply = await up.raw("rift_read", task=task, vm=box, path="/home/dev/kept")
        return not reply.result.get("isError") and "kept" in reply.result["content"][0]["text"]

    await eventually(back, within=30, every=0.2)
    ended = await output(up, task, lost["command"])
    assert ended["status"] == "has not finished"
    assert str(ended["reason"]).startswith("lost: the box's agent restarted")
    await up.call("rift_task_close", task=task)


async def test_a_database_that_dies_is_told_as_such_comes_back_and_nothing_is_lost(up: Running) -> None:
    if up.process is None:
        up.up()
    task, box = await up.take()
    ticking = await up.bash(task, box, TICKS, timeout=600, block_for=0)
    cluster = up.data / "postgres" / "cluster" / "postmaster.pid"
    os.kill(int(cluster.read_text().split()[0]), signal.SIGKILL)

    told = await up.raw("rift_task_ls")
    assert told.status in (200, 503)  # 200: it was back before we asked
    if told.status == 503:
        assert "try again" in told.error["message"]

    async def back() -> bool:
        return (await up.raw("rift_task_ls")).status == 200

    await eventually(back, within=30, every=0.3)
    # It answers a moment before who started it says so: what its tenants need is looked after between the two.
    await eventually(lambda: "the database had ended and runs again" in up.errors(), within=30, every=0.1)
    assert "Traceback" not in up.errors()
    await up.bash(task, box, "until test -e ticks; do sleep 0.02; done; rm on")
    ended = await output(up, task, ticking["command"])
    assert (ended["status"], ended["exit"]) == ("finished", 0)
    await up.call("rift_task_close", task=task)
    assert "The server has stopped" in await asyncio.to_thread(up.end)


async def test_serve_and_worker_do_the_same_job_and_a_killed_worker_loses_nothing() -> None:
    with folder() as data, folder() as elsewhere:
        web, worker = Running(data, "serve"), Running(data, "worker")
        try:
            assert rift("user", "add", "ada@example.com", "--admin", "--data", data).status == 0
            made = rift("token", "new", "--user", "ada@example.com", "--client", "C", "--data", data)
            web.token = made.out.split()[-1]
            origin = elsewhere / "origin"  # below the data folder no keeper reads one
            _repository(origin)
            assert rift("repo", "add", SAMPLE, origin, "--data", data).status == 0
            web.start("Rift serves at")
            assert f"rift worker --data {data}` does its background work" in web.said[-1]
            worker.start("Rift works in the background")

            await web.call("rift_watch", repo=SAMPLE, ref="main")
            task, box = await web.take()
            assert (await web.bash(task, box, "cat hello.txt"))["output"] == "hello\n"

            worker.kill()
            ticking = await web.bash(task, box, TICKS, timeout=600, block_for=0)
            await web.bash(task, box, "until test -e ticks; do sleep 0.02; done; rm on")
            assert (await output(web, task, ticking["command"]))["status"] == "finished"
            waiting = asyncio.create_task(web.take())  # nobody makes boxes now
            worker.start("Rift works in the background")
            other, second = await waiting
            assert (await web.bash(other, second, "cat hello.txt"))["output"] == "hello\n"
            for one in (task, other):
                await web.call("rift_task_close", task=one)

            assert "The worker has stopped." in worker.end()
            worker.start("Rift works in the background")
            assert f"Rift on {data} is down; " in rift("down", "--data", data).out
            assert web.process
            assert worker.process
            assert (web.process.wait(timeout=10), worker.process.wait(timeout=10)) == (0, 0)
            assert processes(data) == []
        finally:
            web.kill()
            worker.kill()


def _repository(path: Path) -> None:
    git = ("git", "-C", str(path), "-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    path.mkdir()
    (path / "hello.txt").write_text("hello\n")
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "one")):
        subprocess.run([*git, *arguments], check=True)
