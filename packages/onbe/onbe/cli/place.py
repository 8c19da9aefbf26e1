"""Where an Onbe lives: its data folder, its settings, its database, and which process serves it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import platformdirs
import typer

from keel.holding import hold, holder, stranger
from keel.postgres import EmbeddedPostgres, PostgresError
from keel.refusal import Refusal

if TYPE_CHECKING:  # what only some commands need is imported by them, so that `onbe --help` is quick
    from onbe.deps import Deps
    from onbe.settings import OnbeSettings

Result = TypeVar("Result")

SERVER_USER = "onbe-server"
"""The system user that the server runs as, where root starts it."""
LOCK = "onbe.lock"
HELD_TRIES = 50
"""How often one that is just ending is looked for, a tenth of a second apart."""
DATABASE = "database.json"
"""The file in the data folder with which whoever starts this Onbe says where its database is: `runtime` and `owner`."""

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", envvar="ONBE_DATA", help="The data folder of the system.", show_default=False
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def default_data() -> Path:
    """The user's data folder for Onbe; `/var/lib/onbe` for root."""
    return Path("/var/lib/onbe") if os.geteuid() == 0 else Path(platformdirs.user_data_dir("onbe"))


@dataclass(frozen=True, slots=True)
class Place:
    """An Onbe at rest: its folder and its settings."""

    data: Path
    settings: OnbeSettings

    @property
    def postgres(self) -> EmbeddedPostgres | None:
        """The embedded database, unless another one is named; as root, its guest is whom the server runs as."""
        if self.settings.database.url or self._given():
            return None
        return EmbeddedPostgres(self.data, name="onbe", guest=SERVER_USER)

    @property
    def admin_key(self) -> Path:
        """Where a development start keeps the admin key that it made."""
        return self.data / "admin.key"

    def url(self, role: str) -> str:
        """The database's address for `owner`, who migrates, or `runtime`, in Onbe's schema."""
        from onbe.migrations import in_schema

        return self.address(role) if role == "owner" else in_schema(self.address(role))

    def address(self, role: str) -> str:
        """The database's address for `owner` or `runtime`."""
        database = self.settings.database
        if database.url:
            return (database.owner_url if role == "owner" else None) or database.url
        given = self._given()
        return given[role] if given else EmbeddedPostgres(self.data, name="onbe").url(f"onbe_{role}")

    def _given(self) -> dict[str, str] | None:
        try:
            told = json.loads((self.data / DATABASE).read_text("utf-8"))
            return {role: str(told[role]) for role in ("runtime", "owner")}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            fail(f"{self.data / DATABASE} cannot be read; whoever starts this Onbe writes it anew")

    def spelled(self, command: str) -> str:
        """An `onbe` command as it is typed here: by a path that finds the program, with `--data` where needed."""
        needed = self.data != default_data() and "ONBE_DATA" not in os.environ
        return f"{self.program()} {command}{f' --data {self.data}' if needed else ''}"

    @staticmethod
    def program() -> str:
        """`onbe` as it is typed here, by a path that finds the program."""
        known = shutil.which("onbe")
        program = Path(sys.executable).parent / "onbe"
        return "onbe" if known and Path(known).resolve() == program.resolve() else str(program)

    def start_database(self) -> bool:
        """Have the embedded database running; whether it was not running before. Exits when it does not start."""
        postgres = self.postgres
        if postgres is None:
            return False
        ran = postgres.running()
        if not ran:
            note("Starting the database …")
        try:
            postgres.start()
        except PostgresError as error:
            fail(str(error))
        return not ran

    def running(self) -> dict[str, Any] | None:
        """What serves this data now: `pid`, `url`; None when nothing does."""
        told = holder(self.data / LOCK)
        return told and {"url": "starting or stopping", **told}

    @contextmanager
    def held(self, *, patient: bool = False, **told: object) -> Iterator[None]:
        """Be the one process that serves this data. Exits with where the other one is when there is one.

        `patient`: one that is just ending is waited for.
        """
        with ExitStack() as stack:
            for _ in range(HELD_TRIES if patient and self.running() else 0):
                if self.running() is None:
                    break
                threading.Event().wait(0.1)
            try:
                stack.enter_context(hold(self.data / LOCK, **told))
            except BlockingIOError:
                other = self.running() or {"url": "starting or stopping", "pid": None}
                where = other["url"] + (f" (process {other['pid']})" if other["pid"] else "")
                fail(
                    f"Onbe already runs on {self.data}: {where}. Another --data with the same Onbe:Database:Url runs "
                    "a second replica."
                )
            yield


def find(
    data: Path | None,
    *,
    make: bool = True,
    host: str | None = None,
    port: int | None = None,
    development: bool = False,
) -> Place:
    """The place that `--data`, ONBE_DATA or the default names, with its folder if `make`. Exits on wrong settings.

    `host`, `port` and `development` are the settings of those names, in other words.
    """
    from keel.settings import SettingsError, load
    from onbe.settings import OnbeSettings

    folder = (data or default_data()).expanduser().absolute()
    try:
        settings = load(OnbeSettings, dict(os.environ), folder / "onbe.toml")
    except SettingsError as error:
        fail(str(error))
    settings = _with_options(settings, host, port, development=development)
    if owner := stranger(folder / LOCK):
        fail(f"the Onbe on {folder} is {owner}'s. Run this as {owner}; --data DIR names another.")
    if make:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        except OSError as error:
            fail(f"the data folder {folder} cannot be made: {error.strerror}. --data DIR names another.")
        if not os.access(folder, os.W_OK | os.X_OK):
            fail(f"nothing can be written to the data folder {folder} by who runs this. --data DIR names another.")
    return Place(folder, settings)


def _with_options(settings: OnbeSettings, host: str | None, port: int | None, *, development: bool) -> OnbeSettings:
    """The settings as options change them: what contradicts another one then is told as it would be in a file."""
    asked = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    changes: dict[str, object] = {"server": settings.server.model_copy(update=asked)} if asked else {}
    if development:
        changes["development"] = settings.development.model_copy(update={"enabled": True})
    changed = settings.model_copy(update=changes)
    if errors := list(changed.contradictions()):
        fail("\n".join(errors))
    return changed


def with_system(data: Path | None, act: Callable[[Deps], Awaitable[Result]]) -> Result:
    """Run one action against the system at a place, running or not; a database that was down is down again after."""
    from onbe import app

    place = find(data)
    started = place.start_database()
    try:
        prepare(place)

        async def run() -> Result:
            signing = app.no_signing()
            async with app.connect(place.settings, place.data, place.url("runtime"), signing=signing) as deps:
                return await act(deps)

        return loop(run())
    finally:
        if started and place.postgres and not place.running():
            place.postgres.stop()


def loop(main: Coroutine[Any, Any, Result]) -> Result:
    """Run it on uvloop."""
    import uvloop  # with the event loop, not with every --help

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def prepare(place: Place) -> None:
    """Bring the database to the newest step. Exits when it cannot be reached."""
    from keel.db import OperationalError  # not with every --help
    from onbe.migrations import migrate

    try:
        migrate(place.url("owner"))
    except OperationalError as error:
        told = str(error).strip().partition("\n")[0]  # the second line asks whether the server runs
        mend = (
            "It is part of a Rift, whose `rift up` starts it."
            if (place.data / DATABASE).exists() and not place.settings.database.url
            else "Onbe:Database:Url names another; without it, Onbe runs its own."
        )
        fail(f"the database cannot be used: {told.rstrip('.?')}. {mend}")


def said(result: Result | Refusal) -> Result:
    """The result, or the refusal's sentence on stderr and exit 1."""
    return fail(result.sentence) if isinstance(result, Refusal) else result


def note(text: str) -> None:
    """Say on stderr what is being waited for, so that nothing is silent for long and stdout stays what was asked."""
    print(text, file=sys.stderr, flush=True)


def fail(sentence: str) -> NoReturn:
    """Say it on stderr and exit 1."""
    from onbe.secrecy import for_logs

    print(f"onbe: {for_logs(sentence)}", file=sys.stderr)
    raise typer.Exit(1)
