"""`rift github …`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rift.cli.place import DataOption, JsonOption, fail, find, with_system

if TYPE_CHECKING:
    from rift.cli.place import Place
    from rift.deps import Deps
    from rift.drivers.boxes.local.doctor import Check
    from rift.github.model import GitHubAccount
    from rift.logins.model import Login
    from rift.registration.model import Standing

CHECK_SECONDS = 30.0

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
    from rift.registration.decide import begin_path, is_organization, manifest

    if org is not None and not is_organization(org):
        fail(f"{org!r} cannot be an organization at GitHub. Its name is the last part of its address there.")
    place = find(data)
    running = place.running()
    if running is None:
        starts = place.spelled("up")
        fail(f"no Rift runs on {place.data}, and GitHub sends your browser back to it. `{starts}` starts it.")
    public = str(running["url"])  # `rift up --port` is in no setting
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


@app.command("status")
def status(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show what is connected.

    The App, the accounts with their state, and whose GitHub user is connected. No secret is shown.

    Example: rift github status --json
    """
    from dataclasses import asdict

    from rift.drivers.github.protocol import GitHubError
    from rift.github import actions as github
    from rift.logins import actions as logins
    from rift.registration import actions as registration

    async def look(deps: Deps) -> tuple[Standing | None, list[GitHubAccount], list[Login]]:
        return await registration.standing(deps), await github.everything(deps), await logins.everybody(deps)

    try:
        standing, accounts, people = with_system(data, look)
    except GitHubError as error:
        fail(f"{error.reason.rstrip('.')}.")
    if as_json:
        told = {
            "app": asdict(standing) if standing else None,
            "accounts": [
                {
                    "account": one.login, "kind": one.kind, "state": one.state, "installation": one.installation,
                    "org": one.org, "connected_at": one.connected_at.isoformat(), "failure": one.failure,
                }
                for one in accounts
            ],
            "people": [
                {
                    "user": one.email, "login": one.login, "connected_at": one.connected_at.isoformat(),
                    "failure": one.failure,
                }
                for one in people
            ],
        }  # fmt: skip
        print(json.dumps(told, indent=2))
        return
    if standing is None:
        print("No GitHub App yet. `rift github app-manifest` makes one.")
    else:
        hooks = "with webhooks" if standing.webhooks else "without webhooks"
        print(f"App {standing.slug} ({standing.app_id}), {'set' if standing.set else 'made here'}, {hooks}")
        print(f"  {standing.html_url}")
    for one in accounts:
        print(f"account {one.login}  {one.kind}  {one.state}{f'  {one.failure}' if one.failure else ''}")
    for person in people:
        print(f"{person.email} is {person.login}{f'  {person.failure}' if person.failure else ''}")


async def check_github(place: Place) -> list[Check]:
    """Whether GitHub takes the App, on a system that runs and has one: a finding of `rift doctor`."""
    import asyncio

    from keel.db import Busy, OperationalError
    from rift import app
    from rift.drivers.boxes.local.doctor import Check
    from rift.drivers.github.protocol import GitHubError
    from rift.registration import actions as registration

    if place.running() is None:
        return []
    where = place.settings.github.url
    try:
        async with (
            asyncio.timeout(CHECK_SECONDS),
            app.connect(place.settings, place.data, place.url("runtime")) as deps,
        ):
            known = await registration.app_of(deps)
            if known is None:
                return []
            found = await deps.github.installations(known)
    except GitHubError as error:
        return [Check("github", False, f"The GitHub App cannot be used at {where}: {error.reason.rstrip('.')}.", None)]
    except (Busy, OperationalError, OSError, TimeoutError):
        return []  # the database is away, as another finding says
    suspended = sum(one.suspended for one in found)
    accounts = f"{len(found)} account{'' if len(found) == 1 else 's'}"
    more = f", {suspended} of them suspended" if suspended else ""
    return [Check("github", True, f"GitHub takes the App {known.slug}; it is installed in {accounts}{more}.", None)]
