"""The server's process where root started it: began as root, gives that away, and serves. `keeper.py` starts it."""

from __future__ import annotations

import importlib
import json
import socket
import sys
from pathlib import Path
from typing import Any

import typer

from keel.commanding import told
from onbe.cli import running, set_up_logs
from onbe.cli.place import Place, loop
from onbe.secrecy import for_logs
from onbe.settings import OnbeSettings

BOOT = "from keel.dropping import boot; boot('Onbe', 'onbe.cli.child')"
"""What its Python runs first: see there."""


def main(descriptor: int, data: str) -> None:
    """Serve as the keeper at the other end of that socket says, and exit."""
    importlib.import_module("onbe.serving")  # now, while the keeper starts the database
    with socket.socket(fileno=descriptor) as line, line.makefile("rb") as reading:
        words = reading.readline()
        if not words.endswith(b"\n"):  # it could not start the database, and has said so
            sys.exit(1)
    job: dict[str, Any] = json.loads(words)
    set_up_logs(verbose=job["verbose"])
    place = Place(Path(data), OnbeSettings.model_validate(job["settings"]))
    sockets = [socket.socket(fileno=number) for number in job["sockets"]]
    with told("onbe", for_logs):
        try:
            sys.exit(loop(running.attend(place, sockets, job["ready"])))
        except typer.Exit as done:  # a sentence was said
            sys.exit(done.exit_code)
