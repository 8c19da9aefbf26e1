"""The bodies of the commands that run an Onbe; `system.py` holds their words."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keel.dropping import no_new_privileges
from keel.ids import SystemIds
from keel.listening import listen
from keel.postgres import PostgresError
from onbe import app
from onbe.cli.place import Place, default_data, fail, loop, note, prepare
from onbe.names import ADMIN_KEY_LENGTH
from onbe.settings import AdminSettings

LOOK_SECONDS = 1.0
"""How often a server looks whether our own database still runs."""


def serve(place: Place, *, patient: bool = False) -> int:
    """Serve until a signal. The exit code. `patient`: another one may just be ending."""
    lacks = list(place.settings.missing())
    if lacks:
        fail("\n".join([*lacks, f"`{place.spelled('serve --development')}` tries Onbe without any of it."]))
    # The port first: where it is taken, nothing was made yet.
    told = {"url": place.settings.issuer, "development": place.settings.development.enabled}
    with place.held(patient=patient, **told), _listening(place, beside=patient) as listening:
        try:
            return _run(place, listening)
        finally:
            _stop_database(place)


def _run(place: Place, listening: socket.socket) -> int:
    """Serve in this process or, as root, in a child that gives root away while the database starts."""
    place = with_admin_key(place)
    if os.geteuid() == 0:
        from onbe.cli import keeper

        with keeper.child(place, [listening]) as child:
            start(place)
            return loop(keeper.keep(place, child))
    no_new_privileges()
    start(place)
    return loop(_serve(place, [listening]))


def _stop_database(place: Place) -> None:
    """Our own database is nobody else's: it ends with its one server. After a kill the next start finds it running."""
    if place.postgres is not None:
        try:
            place.postgres.stop()
        except PostgresError as error:
            note(f"onbe: {error}")


async def _serve(place: Place, sockets: list[socket.socket]) -> int:
    keeping = asyncio.create_task(keep_database(place), name="database")
    try:
        return await attend(place, sockets, ready_lines(place))
    finally:
        keeping.cancel()


async def attend(place: Place, sockets: list[socket.socket], ready: list[str]) -> int:
    """Answer on these sockets until a signal, having said `ready` once requests are taken. The exit code."""
    from onbe import serving
    from onbe.drivers.signing.ring import KeyTrouble

    try:
        async with app.connect(place.settings, place.data, place.url("runtime")) as deps:
            await serving.serve(deps, sockets, lambda: print("\n".join(ready), flush=True))
    except KeyTrouble as trouble:
        fail(str(trouble))
    return 0


def start(place: Place) -> None:
    """Have the database running, at the newest step of its schema."""
    place.start_database()
    prepare(place)


async def keep_database(place: Place) -> None:
    """Start our own database again when it ends under us, as when the kernel is short of memory."""
    while place.postgres is not None:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            if not await asyncio.to_thread(place.postgres.running):
                await asyncio.to_thread(place.postgres.start)
                note("onbe: the database had ended and runs again")
        except PostgresError as error:
            note(f"onbe: {error}")


def with_admin_key(place: Place) -> Place:
    """The place with a key for its admin API: in development, one that is made at the first start and kept."""
    if place.settings.admin.keys or not place.settings.development.enabled:
        return place
    try:
        descriptor = os.open(place.admin_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        key = _kept_key(place.admin_key)
    else:
        key = SystemIds().token()
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{key}\n")
    try:
        admin = AdminSettings(keys=(key,))
    except ValueError:
        fail(f"{place.admin_key} holds no key of at least {ADMIN_KEY_LENGTH} characters; remove it: a start makes one")
    return Place(place.data, place.settings.model_copy(update={"admin": admin}))


def _kept_key(path: Path) -> str:
    """The key in a file that is ours alone. Exits on any other: whoever may read or write it has the admin API."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            state, text = os.fstat(file.fileno()), file.read(4096)
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}; remove it, and the next start makes a key")
    if state.st_uid != os.geteuid() or state.st_mode & 0o077 or not stat.S_ISREG(state.st_mode):
        fail(f"others may know the key in {path}; remove it, and the next start makes another")
    return text.decode("utf-8", "replace").strip()


def ready_lines(place: Place) -> list[str]:
    """What `onbe serve` prints once it serves."""
    lines = [f"Onbe serves at {place.settings.issuer}"]
    if place.settings.development.enabled:
        lines[0] += " in development, for this machine alone"
        if place.admin_key.exists():
            lines.append(f"  the admin API's key: {place.admin_key}")
        if place.data != default_data() and os.environ.get("ONBE_DATA") != str(place.data):
            lines.append(f"  in another terminal, first: export ONBE_DATA={shlex.quote(str(place.data))}")
        lines.append(f"  see it at work: {place.program()} demo; begin: {place.program()} agent init NAME")
    return lines


@contextmanager
def _listening(place: Place, *, beside: bool) -> Iterator[socket.socket]:
    """The port, taken at once: what comes early waits. `beside`: another program starts this one, whose --port is
    not Onbe's."""
    server = place.settings.server
    try:
        taken = listen(server.host, server.port)
    except OSError as error:
        mend = "Onbe__Server__Port in the environment" if beside else "Onbe:Server:Port or --port"
        fail(f"cannot listen on {server.host}:{server.port}: {error.strerror}. {mend} names another.")
    with taken as listening:
        yield listening
