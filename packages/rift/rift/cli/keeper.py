"""The keeper's process: what was started as root, keeps root, and has a child without it do everything else."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import structlog

from keel import children
from keel.accounts import AccountError, account
from keel.children import Child
from keel.ledger.keys import KeyFolder, KeyTrouble
from keel.telemetry import logs
from keel.vault import VaultTrouble
from keel.vault_folder import FolderKeys
from rift import app
from rift.cli import beside, conduct, sample
from rift.cli.child import BOOT
from rift.cli.place import SERVER_USER, Place, fail, note
from rift.drivers.line import BadFrame, connect, frame
from rift.keeper.checks import Bounds
from rift.keeper.desk import Desk
from rift.secrecy import for_logs

log = structlog.get_logger()

LEAVE_SECONDS = 10.0
"""How long a child that has hung up may take to end."""


@contextmanager
def child(place: Place, command: conduct.Command, sockets: list[socket.socket]) -> Iterator[Child]:
    """A process that becomes the server's user at once, then waits to be told what to do. It ends with the block."""
    try:
        who = account(SERVER_USER)
        KeyFolder(place.data / "audit").give(who.uid, who.gid)
        FolderKeys(place.data / "vault").give(who.uid, who.gid)
    except (AccountError, KeyTrouble, VaultTrouble) as error:
        fail(str(error))
    with children.child(BOOT, who, [command, str(place.data)], sockets) as started:
        yield started


async def keep(place: Place, command: conduct.Command, child: Child, demo: tuple[str | None, str | None] | None) -> int:
    """Have the child do a command, and do what it may ask for, until it ends. The exit code.

    With `demo`, a repository and a ref, that is played meanwhile, as `rift demo` would.
    """
    child.line.setblocking(True)
    logs.configure(place.settings.log.format, place.settings.log.level, for_logs)
    with suppress(ConnectionError):  # it has ended already, and said why
        child.line.sendall(frame(job(place, command, child.sockets, quiet=demo is not None)))
    reader, writer = await connect(child.line)
    ready, ground = asyncio.Event(), sample.OwnGround(place.data)
    desk = Desk(
        reader,
        writer,
        Bounds(place.data, conduct.agent_url(place)),
        {
            "boxes": app.local_boxes(place.settings, place.data),
            "forge": app.local_forge(place.settings, place.data),
            "builder": app.local_builder(place.settings, place.data),
        },
        {"first.begin": ground.begin, "first.repository": ground.repository, "first.shown": ground.shown},
        lambda word: ready.set(),
    )
    _on_signals(desk, child)
    async with beside.onbe(place, quiet=demo is not None) if command == "up" else nullcontext():
        return await _keep(place, child, desk, ready, demo)


async def _keep(
    place: Place, child: Child, desk: Desk, ready: asyncio.Event, demo: tuple[str | None, str | None] | None
) -> int:
    database = asyncio.create_task(conduct.keep_database(place), name="database")
    served = asyncio.create_task(_until_it_ends(desk, child))
    try:
        if demo is None:
            await served
            return _code(child)
        from rift.demo import play

        async with app.connect(
            place.settings, place.data, place.url("runtime"), agent_url=conduct.agent_url(place)
        ) as deps:
            address = app.address(place.settings)
            played = await conduct.play_while(
                served, ready, lambda: desk.say("stop"), beside.then_play(place, lambda: play(deps, address, *demo))
            )
        return played or _code(child)
    finally:
        database.cancel()


def job(place: Place, command: conduct.Command, sockets: tuple[int, ...], *, quiet: bool) -> dict[str, Any]:
    """What the child is told to do, and all that it knows of the settings: of the database, its own address alone."""
    runtime = place.settings.database.model_copy(update={"url": place.url("runtime"), "owner_url": None})
    settings = place.settings.model_copy(update={"database": runtime})
    return {
        "command": command,
        "quiet": quiet,
        "verbose": place.settings.log.level in ("debug", "info"),
        "data": str(place.data),
        "settings": settings.model_dump(mode="json"),
        "typed": place.spelling(),
        "agents": conduct.agent_url(place),
        "sockets": sockets,
    }


def _on_signals(desk: Desk, child: Child) -> None:
    """The first signal is passed on as a word, as the child may have had the signal too; a second one ends it."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    heard = False

    def hear() -> None:
        nonlocal heard
        if heard:
            child.process.kill()
        else:
            heard = True
            with suppress(RuntimeError):  # it has hung up already
                desk.say("stop")

    for number in numbers:
        loop.add_signal_handler(number, hear)


async def _until_it_ends(desk: Desk, child: Child) -> None:
    try:
        await desk.serve()
    except BadFrame as error:
        log.error("keeper.bad_frame", reason=str(error))
        note(f"rift: what the server sent its keeper is no order ({error}); it is ended")
        child.process.kill()
    try:
        await asyncio.to_thread(child.process.wait, LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        child.process.kill()
        await asyncio.to_thread(child.process.wait)


def _code(child: Child) -> int:
    code = child.process.returncode
    if code < 0:
        note(f"rift: the server was ended by signal {-code}; boxes and database live on")
        return 1
    return code
