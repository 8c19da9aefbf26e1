"""The keeper's process: what was started as root, keeps root and the database, and has a child without it serve."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from keel import children
from keel.accounts import Account, AccountError, account, give_folder
from keel.children import Child
from keel.ledger.keys import KeyFolder, KeyTrouble
from onbe.cli.child import BOOT
from onbe.cli.place import SERVER_USER, Place, fail, note
from onbe.cli.running import keep_database, ready_lines
from onbe.drivers.signing.folder import read_file
from onbe.drivers.signing.ring import KeyTrouble as SigningTrouble


@contextmanager
def child(place: Place, sockets: list[socket.socket]) -> Iterator[Child]:
    """A process that becomes the server's user at once, then waits to be told what to do. It ends with the block."""
    try:
        who = account(SERVER_USER)
        if not who.may("-x", place.data):
            raise AccountError(
                f"the system user {who.name} cannot enter {place.data}; open the folders above it, or use another"
            )
        KeyFolder(place.data / "audit").give(who.uid, who.gid)
        _give_keys(place.data / "keys", who)
    except (AccountError, KeyTrouble) as error:
        fail(str(error))
    with children.child(BOOT, who, [str(place.data)], sockets) as started:
        yield started


def _give_keys(folder: Path, who: Account) -> None:
    """Have the folder of the signing keys, and what is in it, be the server's, and open to it alone."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        give_folder(folder, who.uid, who.gid)
    except OSError as error:
        raise AccountError(f"{folder} cannot be given to {who.name}: {error.strerror}") from None


async def keep(place: Place, child: Child) -> int:
    """Have the child serve until it ends or a signal comes. The exit code."""
    with suppress(ConnectionError):  # it has ended already, and said why
        child.line.sendall(json.dumps(job(place, child.sockets)).encode() + b"\n")
    passed_on = _on_signals(child)
    database = asyncio.create_task(keep_database(place), name="database")
    try:
        code = await asyncio.to_thread(child.process.wait)
    finally:
        database.cancel()
    if -code in passed_on:  # before it could listen to it: it was to end, and has
        return 0
    if code < 0:
        note(f"onbe: the server was ended by signal {-code}")
        return 1
    return code


def job(place: Place, sockets: tuple[int, ...]) -> dict[str, Any]:
    """All that the child is told: of the database its own address alone; the keys of files that only root may read."""
    settings = place.settings
    database = settings.database.model_copy(update={"url": place.address("runtime"), "owner_url": None})
    keys = settings.keys
    if keys.files:
        try:
            read = [read_file(Path(name), stat.S_IRWXO).decode("ascii") for name in keys.files]
        except (SigningTrouble, ValueError) as trouble:
            fail(str(trouble))
        keys = keys.model_copy(update={"files": (), "pem": "\n".join([*read, keys.pem or ""])})
    told = settings.model_copy(update={"database": database, "keys": keys})
    return {
        "sockets": sockets,
        "settings": told.model_dump(mode="json"),
        "verbose": settings.log.level in ("debug", "info"),
        "ready": ready_lines(place),
    }


def _on_signals(child: Child) -> list[int]:
    """The first signal is passed on; a second one ends it. What was sent to it so far."""
    loop = asyncio.get_running_loop()
    sent: list[int] = []

    def hear() -> None:
        number = signal.SIGKILL if sent else signal.SIGTERM
        sent.append(number)
        child.process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, hear)
    return sent
