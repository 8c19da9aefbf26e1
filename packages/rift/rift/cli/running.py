"""The bodies of the commands that run a system; `system.py` holds their words."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress

from keel.dropping import no_new_privileges
from keel.holding import holder
from keel.listening import BACKLOG, listen
from rift import app
from rift.cli import beside, conduct, keeper, sample
from rift.cli.place import Place, fail, loop, note, prepare

STOP_SECONDS = 30
"""How long `rift down` waits for the server and the workers."""


def up(place: Place, *, demo: bool, repo: str | None, ref: str | None) -> int:
    """Start, make what a first start makes, serve until a signal or play the demo. The exit code."""
    # The port first: where it is taken, nothing was made yet, the token that is shown once included.
    with place.held(url=app.address(place.settings)), _sockets(place) as sockets:
        code = _run(place, "up", sockets, (repo, ref) if demo else None)
    if demo:
        stop(place)
    return code


def serve(place: Place) -> int:
    """The HTTP side until a signal. The exit code."""
    with place.held(url=app.address(place.settings)), _sockets(place) as sockets:
        return _run(place, "serve", sockets)


def worker(place: Place) -> int:
    """The background side until a signal. The exit code."""
    with place.held_as_worker():
        return _run(place, "worker", [])


def _run(
    place: Place,
    command: conduct.Command,
    sockets: list[socket.socket],
    demo: tuple[str | None, str | None] | None = None,
) -> int:
    """Do it in this process or, as root, in a child that gives root away while the database starts."""
    if os.geteuid() == 0:
        with keeper.child(place, command, sockets) as child:
            start(place)
            return loop(keeper.keep(place, command, child, demo))

    async def main() -> int:
        async with beside.onbe(place, quiet=demo is not None) if command == "up" else nullcontext():
            return await everything()

    async def everything() -> int:
        async with conduct.connected(place) as deps:
            if demo is not None:
                return await conduct.demo(deps, place, sockets, *demo)
            await conduct.COMMANDS[command](deps, place, sockets, conduct.Hands(sample.OwnGround(place.data)))
        return 0

    no_new_privileges()
    start(place)
    return loop(main())


def demo(place: Place, address: str, repo: str | None, ref: str | None) -> int:
    """The demo against a system that runs. The exit code."""
    from rift.demo import play

    async def main() -> int:
        async with conduct.connected(place) as deps:
            return await play(deps, address, repo, ref)

    return loop(main())


def down(place: Place) -> int:
    """End the server, the workers and every box's processes, then the database. How many boxes were stopped."""
    pids = _pids(place)
    if pids:
        note("Stopping what serves, then the boxes, then the database …")
    # A Rift that serves ends its Onbe itself, and would take another's signal to that one for a fault.
    beside_it = holder(place.onbe / "onbe.lock") if place.running() else None
    for pid in pids:
        if beside_it and pid == beside_it["pid"]:
            continue
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
        driver = app.local_boxes(place.settings, place.data)
        living = await conduct.living(driver)
        for box in living:
            await driver.stop(box)
        return len(living)

    stopped = loop(all_boxes())
    if place.postgres:
        place.postgres.stop()
    return stopped


def _pids(place: Place) -> list[int]:
    """The processes of the server and the workers of a place, and of its Onbe, where that was started by itself."""
    serving = (place.running(), holder(place.onbe / "onbe.lock"))
    return [*place.workers(), *(told["pid"] for told in serving if told and told["pid"])]


async def _until_free(place: Place) -> None:
    for _ in range(STOP_SECONDS * 10):
        if not _pids(place):
            return
        await asyncio.sleep(0.1)
    pids = ", ".join(map(str, _pids(place)))
    fail(f"Rift did not stop within {STOP_SECONDS} seconds. `kill -9 {pids}` ends it; then `{place.spelled('down')}`.")


@contextmanager
def _sockets(place: Place) -> Iterator[list[socket.socket]]:
    """The port for people and agents, and the socket for boxes' agents, both taken at once: what comes early waits."""
    server = place.settings.server
    try:
        taken = listen(server.host, server.port)
    except OSError as error:
        fail(f"cannot listen on {server.host}:{server.port}: {error.strerror}. --port N takes another.")
    with taken as listening, socket.socket(socket.AF_UNIX) as agents:
        place.agents_socket.unlink(missing_ok=True)
        before = os.umask(0o177)  # closed from its first moment on
        try:
            agents.bind(str(place.agents_socket))
        except OSError as error:
            fail(f"cannot listen on {place.agents_socket}: {error}. --data DIR with a shorter path helps.")
        finally:
            os.umask(before)
        agents.listen(BACKLOG)
        _admit_agents(place)
        yield [listening, agents]


def _admit_agents(place: Place) -> None:
    """Let in the boxes' agents and nobody else of this host; who is in shows a token."""
    path = place.agents_socket
    path.chmod(0o600)
    if os.geteuid() == 0:  # each agent has a user of its own, all have one group
        try:
            os.chown(path, -1, app.local_config(place.settings, place.data).group)
        except OSError as error:  # a container that has no such group, and so no boxes: `rift doctor` tells the mend
            return note(f"rift: {path} stays closed to boxes' agents: {error.strerror}")
        path.chmod(0o660)
    return None
