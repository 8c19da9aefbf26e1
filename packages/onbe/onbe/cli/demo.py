"""`onbe demo`: what Onbe is for, played against a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from onbe.cli.agents import KeyFileOption, UrlOption, server
from onbe.cli.place import DataOption, loop

SEAL_SECONDS = 90.0
"""Longer than the interval at which records are sealed by default."""


def demo(
    url: UrlOption = None,
    key_file: KeyFileOption = None,
    data: DataOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the seal of the demo's records, up to 90 s.")] = False,
) -> None:
    """See it at work.

    Two agents work for a person of the development issuer, one task at a time, against a server that runs: each step
    is told and checked. Exit code 0: all is as it should be.

    Example: onbe demo
    """
    from onbe.demo import play

    address, key = server(url, key_file, data)
    raise typer.Exit(loop(play(address, key, patience=SEAL_SECONDS if wait else 3.0)))
