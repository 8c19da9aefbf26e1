"""The bodies of the commands that run a system; `system.py` holds their words."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from keel.postgres import PostgresError
from rift import app, serving
from rift.cli import sample
from rift.cli.place import Place, fail, loop, note, prepare
from rift.demo import play
from rift.deps import Deps
from rift.drivers.boxes.local import LocalBoxes
from rift.drivers.boxes.protocol import BoxDriver

STOP_SECONDS = 30
"""How long `rift down` waits for the server and the workers."""
LOOK_SECONDS = 1.0
"""How often a server or worker looks whether our own database still runs."""
BACKLOG = 2048
"""How many connections may wait to be taken."""


def up(place: Place, *, demo: bool, repo: str | None, ref: str | None) -> int:
    """Start, make what a first start makes, serve until a signal or play the demo. The exit code."""

    async def main(sockets: list[socket.socket]) -> int:
        async with _connected(place) as deps:
            begun = await sample.set_up(deps)
            if demo:
                return await _play(deps, place, sockets, repo, ref)
            lines = sample.welcome(app.address(place.settings), place, begun)

            def ready() -> None:
                say(lines)
                sample.shown(place.data)

            await serving.serve(deps, sockets, ready, with_work=True)
            await _say_stopped(deps, place)
        return 0

    # The port first: where it is taken, nothing was made yet, the token that is shown once included.
    with place.held(url=app.address(place.settings)), _sockets(place) as sockets:
        start(place)
        code = loop(main(sockets))
    if demo:
        stop(place)
    return code


def serve(place: Place) -> None:
    """The HTTP side until a signal."""

    async def main(sockets: list[socket.socket]) -> None:
        async with _connected(place) as deps:
            worker = place.spelled("worker")
            ready = [f"Rift serves at {app.address(place.settings)}; `{worker}` does its background work."]
            await serving.serve(deps, sockets, lambda: say(ready), with_work=False)
            await _say_stopped(deps, place)

    with place.held(url=app.address(place.settings)), _sockets(place) as sockets:
        start(place)
        loop(main(sockets))


def worker(place: Place) -> None:
    """The background side until a signal."""

    async def main() -> None:
        async with _connected(place) as deps:
            say([f"Rift works in the background for {place.data}; Ctrl-C stops it."])
            await serving.work_until_signal(deps)
        say(["The worker has stopped."])

    with place.held_as_worker():
        start(place)
        loop(main())


def demo(place: Place, address: str, repo: str | None, ref: str | None) -> int:
    """The demo against a system that runs. The exit code."""

    async def main() -> int:
        async with _connected(place) as deps:
            return await play(deps, address, repo, ref)

    return loop(main())


def down(place: Place) -> int:
    """End the server, the workers and every box's processes, then the database. How many boxes were stopped."""
    pids = _pids(place)
    if pids:
        note("Stopping what serves, then the boxes, then the database …")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    if pids:
        loop(_until_free(place))
    return stop(place)


def start(place: Place) -> None:
    """Have the database running, at the newest step of its schema."""
    place.start_database()
    prepare(place)


def stop(place: Place) -> int:
    """Stop boxes and database; how many boxes were stopped."""

    async def all_boxes() -> int:
        driver = LocalBoxes(app.local_config(place.settings, place.data))
        living = await _living(driver)
        for box in living:
            await driver.stop(box)
        return len(living)

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
        keeping = asyncio.create_task(_keep_database(place), name="database")
        try:
            yield deps
        finally:
            keeping.cancel()


async def _keep_database(place: Place) -> None:
    """Start our own database again when it ends under us, as when the kernel is short of memory."""
    while place.postgres is not None:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            if not await asyncio.to_thread(place.postgres.running):
                await asyncio.to_thread(place.postgres.start)
                note("rift: the database had ended and runs again")
        except PostgresError as error:
            note(f"rift: {error}")


async def _say_stopped(deps: Deps, place: Place) -> None:
    left = len(await _living(deps.boxes))
    lives = "1 box lives" if left == 1 else f"{left} boxes live"
    say([f"\nThe server has stopped; {lives} on. `{place.spelled('down')}` stops boxes and database too."])


async def _living(driver: BoxDriver) -> list[str]:
    """The boxes that have processes on this host, parked ones too: asked of the host, as the database may be gone."""
    return [box for box in await driver.inventory() if (await driver.inspect(box)).state in ("running", "parked")]


async def _play(deps: Deps, place: Place, sockets: list[socket.socket], repo: str | None, ref: str | None) -> int:
    """Serve for as long as the demo plays."""
    ready = asyncio.Event()
    served = asyncio.create_task(serving.serve(deps, sockets, ready.set, with_work=True))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([served, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    code = 1
    if ready.is_set():
        playing = asyncio.create_task(play(deps, app.address(place.settings), repo, ref))
        await asyncio.wait([served, playing], return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():  # the server ended under it: it puts away what it can
            playing.cancel()
        with suppress(asyncio.CancelledError):
            code = await playing
    if not served.done():
        os.kill(os.getpid(), signal.SIGTERM)  # the server's own way to end
    await served
    return code


def _pids(place: Place) -> list[int]:
    """The processes of the server and the workers of a place."""
    running = place.running()
    return [*place.workers(), *([running["pid"]] if running and running["pid"] else [])]


async def _until_free(place: Place) -> None:
    for _ in range(STOP_SECONDS * 10):
        if place.running() is None and not place.workers():
            return
        await asyncio.sleep(0.1)
    pids = ", ".join(map(str, _pids(place)))
    fail(f"Rift did not stop within {STOP_SECONDS} seconds. `kill -9 {pids}` ends it; then `{place.spelled('down')}`.")


@contextmanager
def _sockets(place: Place) -> Iterator[list[socket.socket]]:
    """The port for people and agents, and the socket for boxes' agents, both taken at once: what comes early waits."""
    server = place.settings.server
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family) as listening, socket.socket(socket.AF_UNIX) as agents:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((server.host, server.port))
            listening.listen(BACKLOG)
        except OSError as error:
            fail(f"cannot listen on {server.host}:{server.port}: {error.strerror}. --port N takes another.")
        place.agents_socket.unlink(missing_ok=True)
        try:
            agents.bind(str(place.agents_socket))
        except OSError as error:
            fail(f"cannot listen on {place.agents_socket}: {error}. --data DIR with a shorter path helps.")
        agents.listen(BACKLOG)
        place.agents_socket.chmod(0o666)  # each box's agent has a user of its own; its token is what lets it in
        yield [listening, agents]
