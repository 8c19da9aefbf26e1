"""`rift mail …`."""

from __future__ import annotations

from typing import Annotated

import typer

from rift.cli.place import DataOption, find, said, with_system

app = typer.Typer(help="The letters that Rift sends.", no_args_is_help=True)


@app.callback()
def letters() -> None:
    """The letters that Rift sends."""


@app.command("test")
def send_trial(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="Where to send it.")], data: DataOption = None
) -> None:
    """Send a trial letter.

    At once, by the settings as they are now, and what the mail server says to it is told.

    Example: rift mail test ada@example.com
    """
    from rift.mail import actions

    answer = said(with_system(data, lambda deps: actions.trial(deps, email)))
    mail = find(data).settings.mail
    print(f"{mail.host}:{mail.port} took a letter to {email.strip()} from {mail.sender}; it said: {answer}")
