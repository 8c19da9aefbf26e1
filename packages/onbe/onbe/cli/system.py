"""The words of the commands that run an Onbe: serve, migrate, doctor, settings.

What each needs is imported when it runs, so that `onbe --help` is quick.
"""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from keel.dropping import end_with
from onbe.cli.place import DataOption, JsonOption, find, loop

PortOption = Annotated[int | None, typer.Option("--port", metavar="N", min=1, max=65535, help="The port to listen on.")]
HostOption = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")]
DevelopmentOption = Annotated[
    bool, typer.Option("--development", help="A start to try Onbe with, for this machine alone.")
]
ParentOption = Annotated[int | None, typer.Option("--parent", hidden=True, help="End with this process.")]


def serve(
    data: DataOption = None,
    port: PortOption = None,
    host: HostOption = None,
    development: DevelopmentOption = False,
    parent: ParentOption = None,
) -> None:
    """Serve.

    The token endpoint, the admin API, and the upkeep behind them. With --development it makes its own keys, and an
    issuer with one person to try it with.

    Example: onbe serve --development --data ~/onbe
    """
    from onbe.cli import running

    if parent is not None:
        end_with(parent, signal.SIGTERM)
    place = find(data, host=host, port=port, development=development)
    raise typer.Exit(running.serve(place, patient=parent is not None))


def migrate(data: DataOption = None) -> None:
    """Bring the database up to date.

    That is to the newest step of its schema. Doing it again changes nothing.

    Example: onbe migrate
    """
    from onbe.cli import running
    from onbe.migrations import HEAD

    running.start(find(data))
    print(f"The database is at step {HEAD}.")


def doctor(data: DataOption = None, development: DevelopmentOption = False, as_json: JsonOption = False) -> None:
    """Check what Onbe needs.

    One line a check; what is wrong is named with what mends it, and the exit code is 1. A server may be running or not.
    One that runs for development is looked at as such; --development does so before it runs.

    Example: onbe doctor
    """
    from keel.commanding import checks_told
    from onbe.cli.checks import examine

    place = find(data, development=development)
    if (place.running() or {}).get("development"):
        place = find(data, development=True)
    found = loop(examine(place))
    print(checks_told(found, as_json=as_json))
    raise typer.Exit(0 if all(one.ok for one in found) else 1)


def settings(as_json: JsonOption = False) -> None:
    """Print every setting.

    With its default and what it is for. In the environment the colons are double underscores, as in
    Onbe__Server__Port=7500; a file onbe.toml in the data folder can hold them too.

    Example: onbe settings --json
    """
    from keel.commanding import settings_told
    from onbe.settings import OnbeSettings

    print(settings_told(OnbeSettings, as_json=as_json))
