"""The server's process where root started it: began as root, gives that away, and serves. `keeper.py` starts it."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

from keel.commanding import told
from rift import app
from rift.cli import conduct, set_up_logs
from rift.cli.place import Place, loop, note
from rift.drivers.boxes.protocol import DriverError
from rift.drivers.line import Line, connect, receive
from rift.secrecy import for_logs
from rift.settings import RiftSettings

BOOT = "from rift.keeper.drop import boot; boot()"
"""What its Python runs first: see there."""


def main(descriptor: int, command: str) -> None:
    """Serve as the keeper at the other end of that socket says, and exit."""
    importlib.import_module("rift.serving")  # now, while the keeper starts the database
    line = socket.socket(fileno=descriptor)
    job = receive(line)
    if job is None:  # it could not start the database, and has said so
        sys.exit(1)
    set_up_logs(verbose=job["verbose"])
    with told("rift", for_logs):
        loop(_serve(line, job))


class KeptGround:
    """The data folder, which is the keeper's."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def begin(self) -> None:
        await self._line.call("first.begin", {}, DriverError)

    async def repository(self) -> None:
        await self._line.call("first.repository", {}, DriverError)

    async def shown(self) -> None:
        await self._line.call("first.shown", {}, DriverError)


async def _serve(sock: socket.socket, job: dict[str, Any]) -> None:
    before, after = job["typed"]
    place = Place(Path(job["data"]), RiftSettings.model_validate(job["settings"]), (before, after))
    sockets = [socket.socket(fileno=descriptor) for descriptor in job["sockets"]]
    ending = asyncio.Event()
    reader, writer = await connect(sock)
    line = Line(reader, writer, said=lambda word: ending.set())

    gone = asyncio.create_task(_end_with(line))
    hands = conduct.Hands(KeptGround(line), ending, (lambda: line.say("ready")) if job["quiet"] else None)
    boxes, forge, builder = app.remote_drivers(line)
    async with app.connect(
        place.settings,
        place.data,
        place.url("runtime"),
        agent_url=job["agents"],
        boxes=boxes,
        forge=forge,
        builder=builder,
    ) as deps:
        await conduct.COMMANDS[job["command"]](deps, place, sockets, hands)
    gone.cancel()
    await line.close()


async def _end_with(line: Line) -> None:
    """A server whose keeper has gone can do nothing for anybody; the next `rift up` finds everything as it is."""
    await line.ended()
    note("rift: the keeper of this server has ended, and so the server does")
    os._exit(1)
