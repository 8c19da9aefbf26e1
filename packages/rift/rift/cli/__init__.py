"""`rift`: the command line. Every command has a help with an example and finds the running system by `--data`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    set_up_logs(verbose=verbose)


def set_up_logs(*, verbose: bool) -> None:
    """Have failures logged to stderr and, if `verbose`, what the system does. What serves goes by all its settings."""
    logs.configure("console", "info" if verbose else "warning", for_logs)


def main() -> None:
    """The entry point of `rift`."""
    with told():
        app()


@contextmanager
def told() -> Iterator[None]:
    """A program of ours, whose faults are one sentence on stderr and exit 1, unless -v asks for all of it."""
    try:
        yield
    except Exception as error:
        if logging.getLogger().isEnabledFor(logging.INFO):
            raise
        known = for_logs(" ".join(str(error).split())) or "no more is known"
        print(f"rift: a fault: {type(error).__name__}: {known}. `rift -v ...` tells where.", file=sys.stderr)
        sys.exit(1)
