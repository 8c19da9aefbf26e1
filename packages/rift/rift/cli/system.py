"""The words of the commands that run a system: up, down, serve, worker, migrate, doctor, settings, demo.

What each needs is imported when it runs, so that `rift --help` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rift.cli.place import DataOption, JsonOption, Place, fail, find, loop, note

PortOption = Annotated[int | None, typer.Option("--port", metavar="N", min=1, max=65535, help="The port to listen on.")]
RepoOption = Annotated[
    str | None,
    typer.Option("--repo", metavar="PATH_OR_URL", help="For the demo: another git repository than the sample."),
]
RefOption = Annotated[
    str | None, typer.Option("--ref", metavar="REF", help="For the demo: the branch; by default the repository's own.")
]
WithoutOnbeOption = Annotated[bool, typer.Option("--without-onbe", help="Do not start Onbe too.")]
DemoOption = Annotated[bool, typer.Option("--demo", help="Play the demo against it, stop, exit with its status.")]


def up(
    data: DataOption = None,
    port: PortOption = None,
    demo: DemoOption = False,
    repo: RepoOption = None,
    ref: RefOption = None,
    without_onbe: WithoutOnbeOption = False,
) -> None:
    """Set everything up and serve.

    Database, migrations, a first admin, a sample repository, server and worker, and Onbe beside them; again: seconds,
    and all is still there.

    Example: rift up --port 7433 --data ~/rift
    """
    if (repo or ref) and not demo:
        raise typer.BadParameter("--repo and --ref are for --demo; `rift repo add` adds a repository")
    from rift.cli import running

    place = _on_port(find(data), port)
    if without_onbe:
        onbe = place.settings.onbe.model_copy(update={"enabled": False})
        place = Place(place.data, place.settings.model_copy(update={"onbe": onbe}))
    raise typer.Exit(running.up(place, demo=demo, repo=repo, ref=ref))


def serve(data: DataOption = None, port: PortOption = None) -> None:
    """Serve HTTP only.

    That is MCP for agents, and the door for boxes. Background work is `rift worker`'s.

    Example: rift serve --port 7433
    """
    from rift.cli import running

    raise typer.Exit(running.serve(_on_port(find(data), port)))


def worker(data: DataOption = None) -> None:
    """Do background work only.

    That is warm boxes, starts, parking, closing. Any number may run beside `rift serve`.

    Example: rift worker --data /var/lib/rift
    """
    from rift.cli import running

    raise typer.Exit(running.worker(find(data)))


def migrate(data: DataOption = None) -> None:
    """Bring the database up to date.

    That is to the newest step of its schema. Doing it again changes nothing.

    Example: rift migrate
    """
    from rift.cli import running
    from rift.migrations import HEAD

    running.start(find(data))
    print(f"The database is at step {HEAD}.")


def down(data: DataOption = None) -> None:
    """Stop everything, boxes too.

    The server, the workers, the boxes with their processes, the database. Files and records stay.

    Example: rift down --data ~/rift
    """
    place = find(data, make=False)
    if not place.data.exists():
        print(f"There is no Rift on {place.data}: nothing to stop.")
        return
    from rift.cli import running

    served = place.running() is not None
    stopped = running.down(place)
    said = f"Rift on {place.data} is down" if served else f"No server ran on {place.data}"
    boxes = "1 box was" if stopped == 1 else f"{stopped} boxes were"
    back = f" `{place.spelled('up')}` brings {'it back with its' if stopped == 1 else 'them back with their'} files."
    print(f"{said}; {boxes} stopped.{back if stopped else ''}")


def doctor(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Check what this host allows, and count what there is.

    What it does not allow, and what is where it should not be, is named with the one command that mends it, and the
    exit code is 1. A server may be running or not.

    Example: rift doctor
    """
    from keel.commanding import checks_told
    from rift import app
    from rift.cli.counting import Finding, count
    from rift.cli.github import check_github
    from rift.cli.whom import check_server
    from rift.drivers.boxes.local.doctor import Check, check_host
    from rift.drivers.nix.local.doctor import check_nix

    place = find(data)
    note("Trying what this host allows …")
    checks: list[Check | Finding] = [check_server(), *loop(check_host(app.local_config(place.settings, place.data)))]
    checks.append(loop(check_nix(app.local_nix(place.settings, place.data))))
    checks += loop(count(place))
    checks += loop(check_github(place))
    checks = [check._replace(mend=check.mend and place.mending(check.mend)) for check in checks]
    print(checks_told(checks, as_json=as_json))
    raise typer.Exit(0 if all(check.ok for check in checks) else 1)


def settings(as_json: JsonOption = False) -> None:
    """Print every setting.

    With its default and what it is for. In the environment the colons are double underscores, as in
    Rift__Server__Port=7500; a file rift.toml in the data folder can hold them too.

    Example: rift settings --json
    """
    from keel.commanding import settings_told
    from rift.settings import RiftSettings

    print(settings_told(RiftSettings, as_json=as_json))


def demo(data: DataOption = None, repo: RepoOption = None, ref: RefOption = None) -> None:
    """Play the demo on the running system.

    A real MCP client, from opening a task to closing it. The exit code is 1 if a step is not as it should be.

    Example: rift demo --repo ~/src/myproject --ref main
    """
    place = find(data, make=False)
    served = place.running()
    if served is None:
        fail(
            f"nothing serves {place.data}. `{place.spelled('up')}` does, and `{place.spelled('up --demo')}` does both."
        )
    from rift.cli import running

    raise typer.Exit(running.demo(place, served["url"], repo, ref))


def _on_port(place: Place, port: int | None) -> Place:
    if port is None:
        return place
    server = place.settings.server.model_copy(update={"port": port})
    return Place(place.data, place.settings.model_copy(update={"server": server}))
