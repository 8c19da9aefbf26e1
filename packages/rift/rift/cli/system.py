"""The commands that run a system: up, down, serve, worker, migrate, doctor, settings, demo."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from keel.postgres import PostgresError
from keel.settings import table
from rift import app
from rift.cli import sample
from rift.cli.place import DataOption, JsonOption, Place, fail, find, loop, prepare
from rift.deps import Deps
from rift.settings import RiftSettings

PortOption = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="The port to listen on.")]
RepoOption = Annotated[str | None, typer.Option("--repo", help="Another repository than the sample: path or git URL.")]
RefOption = Annotated[str | None, typer.Option("--ref", help="The branch; by default the repository's own.")]


def up(
    data: DataOption = None,
    port: PortOption = None,
    demo: Annotated[bool, typer.Option("--demo", help="Play the demo against it, stop, exit with its status.")] = False,
    repo: RepoOption = None,
    ref: RefOption = None,
) -> None:
    """Set everything up and serve: database, migrations, a first admin, a sample repository, server and worker.

    Example: rift up --port 7433 --data ~/rift
    """
    place = _on_port(find(data), port)
    with place.held(url=app.address(place.settings)):
        _start(place)
        played = [0]

        async def main() -> None:
            async with app.connect(
                place.settings, place.data, place.url("runtime"), agent_url=f"unix:{place.agents_socket}"
            ) as deps:
                first = await sample.set_up(deps)
                if demo:
                    await _play(deps, place, repo, ref, played)
                else:
                    lines = sample.welcome(app.address(place.settings), place.data, first)
                    await app.serve(deps, _sockets(place), lambda: _print(lines), with_work=True)
                    _print(await _farewell(deps))

        loop(main())
    if demo:
        _stop(place)
    raise typer.Exit(played[0])


def serve(data: DataOption = None, port: PortOption = None) -> None:
    """Serve HTTP only: MCP for agents, and the door for boxes. Background work is `rift worker`'s.

    Example: rift serve --port 7433
    """
    place = _on_port(find(data), port)
    with place.held(url=app.address(place.settings)):
        _start(place)

        async def main() -> None:
            async with app.connect(
                place.settings, place.data, place.url("runtime"), agent_url=f"unix:{place.agents_socket}"
            ) as deps:
                ready = [f"Rift serves at {app.address(place.settings)}; `rift worker` does its background work."]
                await app.serve(deps, _sockets(place), lambda: _print(ready), with_work=False)

        loop(main())


def worker(data: DataOption = None) -> None:
    """Do background work only: warm boxes, starts, parking, closing. Any number may run beside `rift serve`.

    Example: rift worker --data /var/lib/rift
    """
    place = find(data)
    _start(place)

    async def main() -> None:
        async with app.connect(
            place.settings, place.data, place.url("runtime"), agent_url=f"unix:{place.agents_socket}"
        ) as deps:
            _print(["Rift works in the background; Ctrl-C stops it."])
            await app.work_until_signal(deps)

    loop(main())


def migrate(data: DataOption = None) -> None:
    """Bring the database to the newest step of its schema. Doing it again changes nothing.

    Example: rift migrate
    """
    from rift.migrations import HEAD

    place = find(data)
    _start(place)
    _print([f"The database is at step {HEAD}."])


def down(data: DataOption = None) -> None:
    """Stop everything: the server, the boxes with their processes, the database. Files and records stay.

    Example: rift down --data ~/rift
    """
    place = find(data)
    running = place.running()
    if running and running["pid"]:
        with suppress(ProcessLookupError):
            os.kill(int(running["pid"]), signal.SIGTERM)
        _wait_until_free(place)
    stopped = _stop(place)
    said = f"Rift on {place.data} is down" if running else f"No server ran on {place.data}"
    _print([f"{said}; {stopped} boxes were stopped. `rift up` brings them back with their files."])


def doctor(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Check what this host allows, and name the one command that mends each thing it does not.

    Example: rift doctor
    """
    from rift.drivers.boxes.local.doctor import check_host

    place = find(data)
    checks = loop(check_host(app.local_config(place.settings, place.data)))
    if as_json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            print(f"{'ok  ' if check.ok else 'NO  '} {check.name}: {check.sentence}")
            if not check.ok and check.mend:
                print(f"       mend: {check.mend}")
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


def settings(as_json: JsonOption = False) -> None:
    """Print every setting with its default and how it is spelled in the environment.

    Example: Rift__Server__Port=7500 rift up
    """
    rows = table(RiftSettings)
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:<{width}}  {row.default:<10}  {row.what}")


def demo(data: DataOption = None, repo: RepoOption = None, ref: RefOption = None) -> None:
    """Play the demo against the running system: a real MCP client, from opening a task to closing it.

    Example: rift demo --repo ~/src/myproject --ref main
    """
    from rift.demo import play

    place = find(data)
    running = place.running()
    if running is None:
        fail(f"nothing serves {place.data}: `rift up` does, and `rift up --demo` does both")

    async def main() -> int:
        async with app.connect(place.settings, place.data, place.url("runtime")) as deps:
            return await play(deps, running["url"], repo, ref)

    raise typer.Exit(loop(main()))


async def _play(deps: Deps, place: Place, repo: str | None, ref: str | None, played: list[int]) -> None:
    from rift.demo import play

    ready = asyncio.Event()
    serving = asyncio.create_task(app.serve(deps, _sockets(place), ready.set, with_work=True))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    if ready.is_set():
        played[0] = 1
        playing = asyncio.create_task(play(deps, app.address(place.settings), repo, ref))
        await asyncio.wait([serving, playing], return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            played[0] = playing.result()
        playing.cancel()
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


async def _farewell(deps: Deps) -> list[str]:
    from rift.boxes.actions import living

    left = await living(deps)
    boxes = "1 box lives" if left == 1 else f"{left} boxes live"
    return [f"\nThe server has stopped; {boxes} on. `rift up` serves again, `rift down` stops boxes and database too."]


def _on_port(place: Place, port: int | None) -> Place:
    if port is None:
        return place
    server = place.settings.server.model_copy(update={"port": port})
    return Place(place.data, place.settings.model_copy(update={"server": server}))


def _start(place: Place) -> None:
    try:
        if place.postgres and not place.postgres.running():
            _print(["Starting the database …"])
            place.start_database()
        prepare(place)
    except PostgresError as error:
        fail(str(error))


def _stop(place: Place) -> int:
    """Stop boxes and database; how many boxes were stopped."""
    from rift.drivers.boxes.local import LocalBoxes

    async def boxes() -> int:
        driver = LocalBoxes(app.local_config(place.settings, place.data))
        stopped = 0
        for box in await driver.inventory():
            if (await driver.inspect(box)).state in ("running", "parked"):
                await driver.stop(box)
                stopped += 1
        return stopped

    stopped = loop(boxes())
    if place.postgres:
        place.postgres.stop()
    return stopped


def _wait_until_free(place: Place) -> None:
    async def wait() -> None:
        for _ in range(300):
            if place.running() is None:
                return
            await asyncio.sleep(0.1)
        fail("the server did not stop within 30 seconds; its process id stands in rift.lock")

    loop(wait())


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


def _print(lines: list[str]) -> None:
    print("\n".join(lines), flush=True, file=sys.stdout)
