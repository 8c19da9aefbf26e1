"""The bodies of the commands that run a system; `system.py` holds their words."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from keel.postgres import PostgresError
from rift import app
from rift.boxes import actions as boxes
from rift.cli import sample
from rift.cli.place import Place, fail, loop, prepare
from rift.demo import play
from rift.deps import Deps
from rift.drivers.boxes.local import LocalBoxes

STOP_SECONDS = 30
"""How long `rift down` waits for the server."""


def up(place: Place, *, demo: bool, repo: str | None, ref: str | None) -> int:
    """Start, make what a first start makes, serve until a signal or play the demo. The exit code."""

    async def main() -> int:
        async with _connected(place) as deps:
            first = await sample.set_up(deps)
            if demo:
                return await _play(deps, place, repo, ref)
            lines = sample.welcome(app.address(place.settings), place, first)
            await app.serve(deps, _sockets(place), lambda: say(lines), with_work=True)
            left = await boxes.living(deps)
        lives = "1 box lives" if left == 1 else f"{left} boxes live"
        say([f"\nThe server has stopped; {lives} on. `{place.spelled('down')}` stops boxes and database too."])
        return 0

    with place.held(url=app.address(place.settings)):
        start(place)
        code = loop(main())
    if demo:
        stop(place)
    return code


def serve(place: Place) -> None:
    """The HTTP side until a signal."""

    async def main() -> None:
        async with _connected(place) as deps:
            ready = [f"Rift serves at {app.address(place.settings)}; `rift worker` does its background work."]
            await app.serve(deps, _sockets(place), lambda: say(ready), with_work=False)

    with place.held(url=app.address(place.settings)):
        start(place)
        loop(main())


def worker(place: Place) -> None:
    """The background side until a signal."""

    async def main() -> None:
        async with _connected(place) as deps:
            say(["Rift works in the background; Ctrl-C stops it."])
            await app.work_until_signal(deps)

    start(place)
    loop(main())


def demo(place: Place, address: str, repo: str | None, ref: str | None) -> int:
    """The demo against a system that runs. The exit code."""

    async def main() -> int:
        async with _connected(place) as deps:
            return await play(deps, address, repo, ref)

    return loop(main())


def down(place: Place) -> int:
    """End the server and every box's processes, then the database. How many boxes were stopped."""
    running = place.running()
    if running and running["pid"]:
        with suppress(ProcessLookupError):
            os.kill(int(running["pid"]), signal.SIGTERM)
        loop(_until_free(place))
    return stop(place)


def start(place: Place) -> None:
    """Have the database running, at the newest step of its schema."""
    try:
        if place.postgres and not place.postgres.running():
            say(["Starting the database …"])
            place.start_database()
        prepare(place)
    except PostgresError as error:
        fail(str(error))


def stop(place: Place) -> int:
    """Stop boxes and database; how many boxes were stopped."""

    async def all_boxes() -> int:
        driver = LocalBoxes(app.local_config(place.settings, place.data))
        stopped = 0
        for box in await driver.inventory():
            if (await driver.inspect(box)).state in ("running", "parked"):
                await driver.stop(box)
                stopped += 1
        return stopped

    stopped = loop(all_boxes())
    if place.postgres:
        place.postgres.stop()
    return stopped


def say(lines: list[str]) -> None:
    """Print, at once."""
    print("\n".join(lines), flush=True)


@asynccontextmanager
async def _connected(place: Place) -> AsyncIterator[Deps]:
    agents = f"unix:{place.agents_socket}"
    async with app.connect(place.settings, place.data, place.url("runtime"), agent_url=agents) as deps:
        yield deps


async def _play(deps: Deps, place: Place, repo: str | None, ref: str | None) -> int:
    """Serve for as long as the demo plays."""
    ready = asyncio.Event()
    serving = asyncio.create_task(app.serve(deps, _sockets(place), ready.set, with_work=True))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    code = 1
    if ready.is_set():
        playing = asyncio.create_task(play(deps, app.address(place.settings), repo, ref))
        await asyncio.wait([serving, playing], return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():  # the server ended under it: it puts away what it can
            playing.cancel()
        with suppress(asyncio.CancelledError):
            code = await playing
    if not serving.done():
        os.kill(os.getpid(), signal.SIGTERM)  # the server's own way to end
    await serving
    return code


async def _until_free(place: Place) -> None:
    for _ in range(STOP_SECONDS * 10):
        if place.running() is None:
            return
        await asyncio.sleep(0.1)
    fail(f"the server did not stop within {STOP_SECONDS} seconds; its process id stands in {place.data}/rift.lock")


def _sockets(place: Place) -> list[socket.socket]:
    """The port for people and agents, and the socket for boxes' agents."""
    server = place.settings.server
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((server.host, server.port))
    except OSError as error:
        fail(f"cannot listen on {server.host}:{server.port}: {error.strerror}. --port N takes another")
    agents = socket.socket(socket.AF_UNIX)
    place.agents_socket.unlink(missing_ok=True)
    try:
        agents.bind(str(place.agents_socket))
    except OSError as error:
        fail(f"cannot listen on {place.agents_socket}: {error}. --data DIR with a shorter path helps")
    Path(place.agents_socket).chmod(0o666)  # each box's agent has a user of its own; its token is what lets it in
    return [listening, agents]
