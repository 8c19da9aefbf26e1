"""`rift`: the command line. Every command has a help with an example and finds the running system by `--data`."""

from __future__ import annotations

from typing import Annotated

import typer

from keel.commanding import told, verbosely
from keel.telemetry import logs
from rift.cli import audit, env, github, mail, people, repos, secrets, system, vault
from rift.secrecy import for_logs

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
app.add_typer(people.orgs, name="org")
app.add_typer(people.tokens, name="token")
app.add_typer(mail.app, name="mail")
app.add_typer(repos.app, name="repo")
app.add_typer(github.app, name="github")
app.add_typer(secrets.app, name="secret")
app.add_typer(audit.app, name="audit")
app.add_typer(vault.app, name="vault")
app.add_typer(env.app, name="env")


@app.callback()
def everywhere(
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log what the system does, not only what fails.")
    ] = False,
) -> None:
    """Disposable boxes for coding agents, grouped into leased tasks, over MCP."""
    if verbose:
        verbosely("Rift")
    set_up_logs(verbose=verbose)


def set_up_logs(*, verbose: bool) -> None:
    """Have failures logged to stderr and, if `verbose`, what the system does. What serves goes by all its settings."""
    logs.configure("console", "info" if verbose else "warning", for_logs)


def main() -> None:
    """The entry point of `rift`."""
    with told("rift", for_logs):
        app()
