"""Where a system lives: its data folder, its settings, its database, and which process serves it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import platformdirs
import typer

from keel.holding import hold, holder, stranger
from keel.postgres import EmbeddedPostgres, PostgresError, Tenant
from keel.refusal import Ask, Call, Refusal
from rift.people.model import OPERATOR

if TYPE_CHECKING:  # what only some commands need is imported by them, so that `rift --help` is quick
    from rift.deps import Deps
    from rift.settings import RiftSettings

Result = TypeVar("Result")

SERVER_USER = "rift-server"
"""The system user that the server and the workers run as, where root starts them."""
ONBE = Tenant("onbe", guest="onbe-server")
"""Onbe's part of the embedded database."""

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar="RIFT_DATA", help="The data folder of the system.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def default_data() -> Path:
    """The user's data folder for Rift; `/var/lib/rift` for root."""
    return Path("/var/lib/rift") if os.geteuid() == 0 else Path(platformdirs.user_data_dir("rift"))


@dataclass(frozen=True, slots=True)
class Place:
    """A system at rest: its folder and its settings."""

    data: Path
    settings: RiftSettings
    typed: tuple[str, str] | None = None
    """How `rift` is typed here: before a command and after it, where another process found that out."""

    @property
    def postgres(self) -> EmbeddedPostgres | None:
        """The embedded database, unless a URL is set. As root, its guest is the user that the server runs as."""
        if self.settings.database.url:
            return None
        tenants = (ONBE,) if self.settings.onbe.enabled else ()
        return EmbeddedPostgres(self.data, guest=SERVER_USER, tenants=tenants)

    @property
    def onbe(self) -> Path:
        """Onbe's data folder."""
        return self.data / "onbe"

    @property
    def agents_socket(self) -> Path:
        """Where boxes' agents on this host reach the server, whatever its port."""
        return self.data / "agents.sock"

    def spelled(self, command: str) -> str:
        """A `rift` command as it is typed here: by a path that finds the program, with `--data` where needed."""
        before, after = self.typed or self.spelling()
        return f"{before} {command}{after}"

    def mending(self, command: str) -> str:
        """A command that mends a lack of the host, as it is typed here: root needs no `sudo`, and may have none."""
        bare = command.removeprefix("sudo ") if os.geteuid() == 0 else command
        return f"{bare.removesuffix('rift up')}{self.spelled('up')}" if bare.endswith(" rift up") else bare

    def spelling(self) -> tuple[str, str]:
        """What is typed before a command and after it."""
        program, here = Path(sys.argv[0]), Path.cwd()
        known = shutil.which("rift")
        if known is None or Path(known).resolve() != program.resolve():
            rift = str(program.relative_to(here) if program.is_relative_to(here) else program)
        else:
            rift = "rift"
        needed = self.data != default_data() and "RIFT_DATA" not in os.environ
        return rift, f" --data {self.data}" if needed else ""

    def url(self, role: str) -> str:
        """The database's address for `owner` or `runtime`."""
        database = self.settings.database
        if database.url:
            return (database.owner_url if role == "owner" else None) or database.url
        return EmbeddedPostgres(self.data).url(f"rift_{role}")

    def start_database(self, *, for_a_command: bool = False) -> bool:
        """Have the embedded database running; whether it was not running before. Exits when it does not start.

        For a command, one that a server or worker works with stays as that has it: what is set differently for the
        command alone is no reason to start it anew.
        """
        postgres = self.postgres
        if postgres is None:
            return False
        ran = postgres.running()
        if ran and for_a_command and self._others():
            return False
        if not ran:
            note("Starting the database …")
        try:
            postgres.start()
        except PostgresError as error:
            fail(str(error))
        return not ran

    def running(self) -> dict[str, Any] | None:
        """What serves this data now: `pid`, `url`; None when nothing does."""
        told = holder(self.data / "rift.lock")
        return told and {"url": "starting or stopping", **told}

    def workers(self) -> list[int]:
        """The process ids of the `rift worker`s of this data."""
        found = [holder(path) for path in (self.data / "workers").glob("*.lock")]
        return [told["pid"] for told in found if told and told["pid"]]

    def _others(self) -> set[int]:
        """The processes beside this one that serve this data or do its background work."""
        served = self.running()
        return {*self.workers(), *([served["pid"]] if served and served.get("pid") else [])} - {os.getpid()}

    @contextmanager
    def held(self, **told: object) -> Iterator[None]:
        """Be the one process that serves this data. Exits with where the other one is when there is one."""
        with ExitStack() as stack:
            try:
                stack.enter_context(hold(self.data / "rift.lock", **told))
            except BlockingIOError:
                other = self.running() or {"url": "starting or stopping", "pid": None}
                where = other["url"] + (f" (process {other['pid']})" if other["pid"] else "")
                fail(
                    f"Rift already runs on {self.data}: {where}. "
                    f"`{self.spelled('down')}` stops it; another --data runs a second one."
                )
            yield

    @contextmanager
    def held_as_worker(self) -> Iterator[None]:
        """Be one of the workers of this data."""
        path = self.data / "workers" / f"{os.getpid()}.lock"
        path.parent.mkdir(exist_ok=True)
        try:
            with hold(path):
                yield
        finally:
            path.unlink(missing_ok=True)


def find(data: Path | None, *, make: bool = True) -> Place:
    """The place that `--data`, RIFT_DATA or the default names, with its folder if `make`. Exits on wrong settings."""
    from keel.settings import SettingsError, load
    from rift.settings import RiftSettings

    folder = (data or default_data()).expanduser().absolute()
    try:
        settings = load(RiftSettings, dict(os.environ), folder / "rift.toml")
    except SettingsError as error:
        fail(str(error))
    if owner := stranger(folder / "rift.lock"):
        fail(f"the Rift on {folder} is {owner}'s. Run this as {owner}; --data DIR names another.")
    if not make:
        return Place(folder, settings)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    except OSError as error:
        fail(f"the data folder {folder} cannot be made: {error.strerror}. --data DIR names another.")
    return Place(folder, settings)


def with_system(data: Path | None, act: Callable[[Deps], Awaitable[Result]]) -> Result:
    """Run one action against the system at a place, running or not; a database that was down is down again after."""
    from rift import app

    place = find(data)
    started = place.start_database(for_a_command=True)
    try:
        prepare(place)

        async def run() -> Result:
            async with app.connect(place.settings, place.data, place.url("runtime")) as deps:
                return await act(deps)

        return loop(run())
    finally:
        if started and place.postgres and not place.running() and not place.workers():
            place.postgres.stop()


def loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run it on uvloop."""
    import uvloop  # with the event loop, not with every --help

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def prepare(place: Place) -> None:
    """Bring the database to the newest step. Exits when it cannot be reached."""
    from keel.db import OperationalError  # not with every --help
    from rift.migrations import migrate

    try:
        migrate(place.url("owner"))
    except OperationalError as error:
        told = str(error).strip().partition("\n")[0]  # the second line asks whether the server runs
        fail(
            f"the database cannot be used: {told.rstrip('.?')}. "
            "Rift:Database:Url names another; without it, Rift runs its own."
        )


def said(result: Result | Refusal) -> Result:
    """The result, or the refusal's sentence and mends on stderr and exit 1."""
    if not isinstance(result, Refusal):
        return result
    mends = [_mend(mend) for mend in result.mends]
    return fail("\n".join([result.sentence, *(f"  {mend}" for mend in mends if mend)]))


def _mend(mend: object) -> str:
    if isinstance(mend, Call):
        return f"{mend.tool} {json.dumps(dict(mend.arguments))}" if mend.arguments else mend.tool
    if isinstance(mend, Ask):  # whoever runs this Rift is who reads it
        return mend.page if mend.role in (OPERATOR, "yourself") else f"ask {mend.role}: {mend.page}"
    return ""


def note(text: str) -> None:
    """Say on stderr what is being waited for, so that nothing is silent for long and stdout stays what was asked."""
    print(text, file=sys.stderr, flush=True)


def fail(sentence: str) -> NoReturn:
    """Say it on stderr and exit 1."""
    print(f"rift: {sentence}", file=sys.stderr)
    raise typer.Exit(1)
