"""`rift`: the command line. Every command has a help with an example and finds the running system by `--data`."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from keel.telemetry import logs
from rift.cli import audit, people, repos, system
from rift.secrecy import for_logs

LEVEL = "Rift__Log__Level"

app = typer.Typer(
    name="rift",
    help="Disposable boxes for coding agents, grouped into leased tasks, over MCP.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (system.up, system.down, system.serve, system.worker, system.migrate, system.doctor, system.settings):
    app.command()(command)
app.command("demo")(system.demo)
app.add_typer(people.users, name="user")
app.add_typer(people.tokens, name="token")
app.add_typer(repos.app, name="repo")
app.add_typer(audit.app, name="audit")


@app.callback()
def everywhere(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what the system does, not only what fails.")
    ] = False,
) -> None:
    """Disposable boxes for coding agents, grouped into leased tasks, over MCP."""
    if verbose:  # the setting, in another word: what this process starts reads it too
        for name in [name for name in os.environ if name.lower() == LEVEL.lower()]:
            del os.environ[name]
        os.environ[LEVEL] = "info"
    logs.configure("console", "info" if verbose else "warning", for_logs)  # what serves goes by all its settings


def main() -> None:
    """The entry point of `rift`. A fault of ours is one sentence too, unless -v asks for all of it."""
    try:
        app()
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.INFO):
            raise
        told = " ".join(str(error).split()) or "no more is known"
        print(f"rift: a fault: {type(error).__name__}: {told}. `rift -v ...` tells where.", file=sys.stderr)
        sys.exit(1)
