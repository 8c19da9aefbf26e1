"""`onbe agent …`: agents as files, and on a server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from onbe.cli.place import DataOption, JsonOption, default_data, note

if TYPE_CHECKING:  # what only some commands need is imported by them, so that `onbe --help` is quick
    from onbe.cli.remote import Registry, Trouble

KEY_VARIABLE = "ONBE_ADMIN_KEY"
LOCAL = "http://127.0.0.1:7434"

app = typer.Typer(help="Agents: as files, and on a server.", no_args_is_help=True)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="ONBE_URL",
        help="The server; by default the one that serves --data, else this machine's.",
        show_default=False,
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--admin-key-file",
        metavar="FILE",
        help=f"A file that holds the admin key; without it ${KEY_VARIABLE}, or the key of a development start.",
        show_default=False,
    ),
]
Names = Annotated[list[str], typer.Argument(metavar="AGENT", help="Ids of agents.")]


@app.command("init")
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's id.")],
    folder: Annotated[Path, typer.Option("--in", metavar="DIR", help="Where to write the files.")] = Path(),
) -> None:
    """Write a file for a new agent, and its key.

    NAME.agent.toml says in comments what to fill in; NAME.key.pem is the agent's private key, which no server sees.
    What is there already is never written over.

    Example: onbe agent init mailer
    """
    from onbe.cli import registry
    from onbe.cli.remote import Trouble
    from onbe.directory.decide import is_id
    from onbe.names import RESERVED_IDS

    if not is_id(name) or name in RESERVED_IDS:
        usage("NAME should be 1 to 64 of a-z, 0-9, dot, hyphen, underscore, and begin with a letter or digit")
    try:
        file, key = registry.init(folder, name)
    except Trouble as trouble:
        failed(trouble)
    print(f"{file}\n  what {name} may do: fill it in, then: onbe agent apply {file}")
    print(f"{key}\n  its private key: for the agent alone")


@app.command("apply")
def apply(
    files: Annotated[list[Path], typer.Argument(metavar="FILES", help="One agent each, in TOML or JSON.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the agents on a server be what files say.

    All files are checked before anything is changed. What a file does not name is as if it were never set, but for
    `enabled`, which is left as it is. Doing it again changes nothing.

    Example: onbe agent apply agents/*.agent.toml --dry-run
    """
    from onbe.cli import registry
    from onbe.cli.remote import Trouble

    try:
        wanted = registry.read_all(files)
        with _registry(url, key_file, data) as server:
            steps = registry.plan(server, wanted)
            if not dry_run:
                registry.carry_out(server, steps)
    except Trouble as trouble:
        failed(trouble, as_json=as_json)
    print(registry.as_json(steps, dry_run) if as_json else registry.as_text(steps, dry_run))


@app.command("ls")
def list_agents(
    url: UrlOption = None, key_file: KeyFileOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the agents on a server.

    Example: onbe agent ls --json
    """
    from onbe.cli.remote import Trouble

    try:
        with _registry(url, key_file, data) as server:
            agents = server.all()
    except Trouble as trouble:
        failed(trouble, as_json=as_json)
    if as_json:
        print(json.dumps(agents, indent=2, ensure_ascii=False))
        return
    if not agents:
        print("No agents yet. `onbe agent init NAME` writes a file for one, `onbe agent apply` registers it.")
    width = max((len(one["agent_id"]) for one in agents), default=0)
    for one in agents:
        off = "" if one["enabled"] else "  (disabled)"
        print(f"{one['agent_id']:{width}}  {one['display_name']}{off}")


@app.command("rm")
def remove(names: Names, url: UrlOption = None, key_file: KeyFileOption = None, data: DataOption = None) -> None:
    """Delete agents from a server.

    One of which tasks are stored is refused: disable it instead, with `enabled = false` in its file.

    Example: onbe agent rm mailer
    """
    from onbe.cli.remote import Trouble

    try:
        with _registry(url, key_file, data) as server:
            for name in names:
                server.delete(name)
                print(f"{name} is deleted")
    except Trouble as trouble:
        failed(trouble)


def usage(sentence: str) -> NoReturn:
    """Say it on stderr and exit 2."""
    note(f"onbe: {sentence}")
    raise typer.Exit(2)


def failed(trouble: Trouble, *, as_json: bool = False) -> NoReturn:
    """Say what went wrong and exit 1: on stderr, as JSON on stdout."""
    if as_json:
        print(json.dumps({"errors": trouble.errors}, indent=2, ensure_ascii=False))
    else:
        note("\n".join(f"onbe: {line}" for line in trouble.lines))
    raise typer.Exit(1)


def _registry(url: str | None, key_file: Path | None, data: Path | None) -> Registry:
    from onbe.cli.remote import Registry

    return Registry(*server(url, key_file, data))


def server(url: str | None, key_file: Path | None, data: Path | None) -> tuple[str, str]:
    """The address that is meant, and its admin key. Exits with 2 when there is no key, or it would go unprotected."""
    from onbe.cli.remote import fit

    folder = (data or default_data()).expanduser()
    url = url or _serving(folder) or LOCAL
    if problem := fit(url):
        usage(f"--url {problem}")
    made = folder / "admin.key"
    if key_file is None and not os.environ.get(KEY_VARIABLE) and made.exists():
        key_file = made
    if key_file is None:
        key = os.environ.get(KEY_VARIABLE, "")
    else:
        try:
            key = key_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            usage(f"{key_file} cannot be read")
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable():
        usage(
            f"the admin key is missing: set {KEY_VARIABLE}, or name a file that holds it with --admin-key-file. That "
            f"of a development start is in its data folder: name that with --data or ONBE_DATA ({folder} has none)"
        )
    return url.rstrip("/"), key


def _serving(folder: Path) -> str | None:
    """Where the system of a data folder is served now."""
    from keel.holding import holder
    from onbe.cli.place import LOCK

    told = holder(folder / LOCK) if folder.exists() else None
    url = (told or {}).get("url")
    return url if isinstance(url, str) and url.startswith("http") else None
