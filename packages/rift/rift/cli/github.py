"""`rift github …`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from rift.cli.place import DataOption, JsonOption, fail, find

app = typer.Typer(help="The GitHub App, and what is connected by it.", no_args_is_help=True)


@app.callback()
def at_github() -> None:
    """The GitHub App, and what is connected by it."""


@app.command("app-manifest")
def app_manifest(
    org: Annotated[
        str | None, typer.Option("--org", metavar="ORG", help="The organization at GitHub that is to own it.")
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Print what GitHub is asked for, too.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the GitHub App.

    Prints the link that a platform admin opens: it leads to GitHub, which asks for one click, and back.

    Example: rift github app-manifest --org acme
    """
    from urllib.parse import urlsplit

    from keel.hosts import is_loopback
    from rift.app import address
    from rift.registration.decide import begin_path, is_organization, manifest

    if org is not None and not is_organization(org):
        fail(f"{org!r} cannot be an organization at GitHub. Its name is the last part of its address there.")
    place = find(data)
    running = place.running()
    if running is None:
        starts = place.spelled("up")
        fail(f"no Rift runs on {place.data}, and GitHub sends your browser back to it. `{starts}` starts it.")
    public = address(place.settings)
    asked = manifest(public, reachable=not is_loopback(urlsplit(public).hostname or ""))
    url = f"{public}{begin_path(org)}"
    if as_json:
        print(json.dumps({"url": url, "manifest": asked}, indent=2))
        return
    if show:
        print(json.dumps(asked, indent=2))
    print(f"Open {url} as a platform admin, and make the App there.")
    if "hook_attributes" not in asked:
        print("GitHub cannot reach this address, so the App gets no webhooks; Rift looks every minute instead.")
