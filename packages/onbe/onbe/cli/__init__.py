"""`onbe`: the command line. Every command has a help with an example and finds the running system by `--data`."""

from __future__ import annotations

from typing import Annotated

import typer

from keel.commanding import told, verbosely
from keel.telemetry import logs
from onbe.cli import agents, audit, conformance, demo, keys, system
from onbe.secrecy import for_logs

app = typer.Typer(
    name="onbe",
    help="An authority for agents: short tokens for one task of one person, renewed by a task grant.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for command in (system.serve, system.migrate, system.doctor, system.settings, conformance.conformance):
    app.command()(command)
app.command("demo")(demo.demo)
app.add_typer(agents.app, name="agent")
app.add_typer(keys.app, name="keys")
app.add_typer(audit.app, name="audit")


@app.callback()
def everywhere(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what the system does, not only what fails.")
    ] = False,
) -> None:
    """An authority for agents: short tokens for one task of one person, renewed by a task grant."""
    if verbose:
        verbosely("Onbe")
    set_up_logs(verbose=verbose)


def set_up_logs(*, verbose: bool) -> None:
    """Have failures logged to stderr and, if `verbose`, what the system does. What serves goes by all its settings."""
    logs.configure("console", "info" if verbose else "warning", for_logs)


def main() -> None:
    """The entry point of `onbe`."""
    with told("onbe", for_logs):
        app()
