"""`rift secret …`: secrets of repositories, for whoever runs the server. A value is never an argument."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from rift.cli.place import DataOption, JsonOption, fail, note, said, with_system

app = typer.Typer(help="Secrets of repositories, for the commands of their boxes.", no_args_is_help=True)

RepoArgument = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Which repository.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The environment variable that holds it.")]


@app.command("ls")
def list_secrets(repo: RepoArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List a repository's secrets.

    Their names, and when each was set; no command prints a value.

    Example: rift secret ls acme/app
    """
    from rift.secrets import actions
    from rift.times import rfc3339

    found = said(with_system(data, lambda deps: actions.operator_look(deps, repo)))
    if as_json:
        rows = [
            {
                "name": one.name,
                "bytes": one.bytes,
                "set_at": rfc3339(one.set_at),
                "set_by": one.set_by,
                "shut": one.shut,
            }
            for one in found
        ]
        print(json.dumps(rows, indent=2))
        return
    if not found:
        print(f"{repo} has no secrets. `rift secret set {repo} NAME` sets one.")
    for one in found:
        by = f" by {one.set_by}" if one.set_by else ""
        print(f"{one.name}  set {rfc3339(one.set_at)}{by}" + ("  (cannot be opened: set it again)" if one.shut else ""))


@app.command("set")
def set_secret(repo: RepoArgument, name: NameArgument, data: DataOption = None) -> None:
    """Set a secret.

    Its value is read from standard input, or asked for where that is a terminal; one line break at its end is left off.
    The next command in each box of the repository has it.

    Example: rift secret set acme/app API_KEY < key.txt
    """
    from rift.secrets import actions
    from rift.secrets.decide import typed

    value = typed(_value(name))
    done = said(with_system(data, lambda deps: actions.operator_put(deps, repo, name, value)))
    print(
        f"{name} of {done.repo.full} is {'set' if done.fresh else 'changed'}: the next commands in its boxes have it."
    )


@app.command("rm")
def remove_secret(repo: RepoArgument, name: NameArgument, data: DataOption = None) -> None:
    """Remove a secret.

    The next command in each box of the repository does not have it; one that runs keeps it.

    Example: rift secret rm acme/app API_KEY
    """
    from rift.secrets import actions

    done = said(with_system(data, lambda deps: actions.operator_remove(deps, repo, name)))
    print(f"{done.name} of {done.repo.full} is removed: the next commands in its boxes do not have it.")


def _value(name: str) -> str:
    if sys.stdin.isatty():
        import getpass

        value = getpass.getpass(f"The value of {name} (not shown): ")
        if not value:
            note("Nothing was typed.")
        return value
    try:
        return sys.stdin.buffer.read(1 << 20).decode("utf-8")
    except UnicodeDecodeError:
        fail("the value is not text in UTF-8. `base64` makes text of other bytes, for the commands to decode.")
