"""`rift repo …`."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from keel.refusal import Refusal
from rift.cli.place import DataOption, JsonOption, Place, fail, find, note, said, with_system

Mode = Literal["proxy", "none", "open"]

app = typer.Typer(help="The repositories that boxes are made of.", no_args_is_help=True)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="As agents will call it.")],
    origin: Annotated[str, typer.Argument(metavar="URL_OR_PATH", help="Any git URL, or a path on this machine.")],
    user: Annotated[
        str | None, typer.Option("--user", metavar="EMAIL", help="Whose it is; by default the first admin's.")
    ] = None,
    org: Annotated[str | None, typer.Option("--org", metavar="TEAM", help="A team's, in place of a person's.")] = None,
    data: DataOption = None,
) -> None:
    """Add a repository.

    It is fetched at once; then its heads are looked at every 10 seconds.

    Example: rift repo add acme/app ~/src/app
    """
    from rift.origins import actions

    if user and org:
        fail("a repository is one person's or one team's: --user EMAIL or --org TEAM, not both.")
    note(f"Fetching {name} …")
    repo = said(with_system(data, lambda deps: actions.add_repo(deps, user, name, origin, org)))
    watch = f'rift_watch {{"repo": "{repo.full}", "ref": "main"}}'
    print(f"{repo.full} is here. An agent watches a branch, such as main, with {watch}.")


@app.command("ls")
def list_repos(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the repositories.

    With their watched refs and how many warm boxes each has. Of GitHub's, which may be thousands, those that are
    watched.

    Example: rift repo ls --json
    """
    from rift.repos import actions
    from rift.repos.decide import why_closed

    found = with_system(data, actions.list_repos)
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "repo": view.repo.full,
                        "origin": view.shown_url,
                        "account": view.repo.login,
                        "open": view.repo.open,
                        "failure": view.repo.failure,
                        "refs": [
                            {
                                "ref": one.ref,
                                "head": one.head,
                                "warm": one.warm,
                                "ready": one.ready,
                                "failure": one.failure,
                            }
                            for one in view.watches
                        ],
                    }
                    for view in found
                ],
                indent=2,
            )
        )
        return
    if not found:
        print("No repositories yet. `rift repo add OWNER/NAME URL_OR_PATH` adds one.")
    for view in found:
        print(
            f"{view.repo.full}  {view.shown_url}"
            + (f"  (cannot be read: {view.repo.failure})" if view.repo.failure else "")
            + (f"  ({why})" if (why := why_closed(view.repo)) else "")
        )
        for one in view.watches:
            print(f"  {one.ref}  head {(one.head or 'none')[:12]}  {one.ready} of {one.warm} warm boxes ready")


@app.command("sync")
def sync(
    name: Annotated[str | None, typer.Argument(metavar="OWNER/NAME", help="All of them when left out.")] = None,
    data: DataOption = None,
) -> None:
    """Look for new commits now.

    At the origin of one repository or of all; the exit code is 1 if one cannot be read.

    Example: rift repo sync acme/app
    """
    from rift.origins import actions

    note("Looking at the origins …" if name is None else f"Looking at the origin of {name} …")
    failed = False
    for one in said(with_system(data, lambda deps: actions.sync(deps, name))):
        moved = ", ".join(f"{change.ref} is at {(change.after or 'nothing')[:12]}" for change in one.changes)
        print(f"{one.repo.full}: {one.failure or moved or 'nothing moved'}")
        failed = failed or one.failure is not None
    raise typer.Exit(1 if failed else 0)


@app.command("network")
def network(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Which repository.")],
    mode: Annotated[
        Mode | None,
        typer.Option(
            "--mode", metavar="proxy|none|open", help="proxy: listed hosts; none: nothing; open: the public internet."
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="HOST", help="A host to add; *.HOST for all below it.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="HOST", help="An added host to take off again.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set what boxes may reach.

    The hosts that boxes of a repository may reach; without options, show it. Counts from a box's next start.

    Example: rift repo network acme/app --allow api.example.com
    """
    from rift.drivers.boxes.allow import DEFAULT_ALLOW
    from rift.drivers.boxes.local.opening import Lack, find_opening
    from rift.repos import actions
    from rift.repos.model import Network

    place = find(data)
    change = Network(mode, tuple(allow or ()), tuple(deny or ()))
    repo = said(with_system(data, lambda deps: actions.set_network(deps, name, change)))
    lack = find_opening() if repo.network == "open" else None
    if isinstance(lack, Lack):
        note(lack_told(repo.full, lack.what, lack.mend, place))
    if as_json:
        reached = {"proxy": [*DEFAULT_ALLOW, *repo.allow], "open": ["*"]}.get(repo.network, [])
        print(json.dumps({"repo": repo.full, "mode": repo.network, "added": repo.allow, "reached": reached}, indent=2))
        return
    if repo.network == "none":
        print(f"Boxes of {repo.full} reach nothing.")
        return
    if repo.network == "open":
        print(open_told(repo.full, possible=not isinstance(lack, Lack)))
        return
    own = f", and {', '.join(repo.allow)}" if repo.allow else ""
    print(f"Boxes of {repo.full} reach {len(DEFAULT_ALLOW)} usual registries and forges{own}.")


def open_told(full: str, *, possible: bool) -> str:
    """What an open network means, not promised where this host cannot make one."""
    return f"Boxes of {full} {'reach' if possible else 'are to reach'} the public internet, and no private network."


def lack_told(full: str, what: str, mend: str, place: Place) -> str:
    """What this host lacks for a repository's open network, what that means for its boxes, and the two ways on."""
    return (
        f"This host cannot make an open network yet: {what}. Until that is mended, no box of {full} starts.\n"
        f"  `{place.mending(mend)}` mends it\n"
        f"  `{place.spelled(f'repo network {full} --mode proxy')}` goes back"
    )


@app.command("push")
def push(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Which repository.")],
    default: Annotated[
        bool | None, typer.Option("--default-branch/--no-default-branch", help="To its default branch.")
    ] = None,
    watched: Annotated[bool | None, typer.Option("--watched/--no-watched", help="To watched refs.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set where boxes may push.

    Every other branch of its own repository is open to a box; without options, show what is set.

    Example: rift repo push acme/app --watched
    """
    from rift.audit import SystemAct
    from rift.deps import Deps
    from rift.repos import actions
    from rift.repos.model import Repo

    async def change(deps: Deps) -> Repo | Refusal:
        told = {"repo": name, "default": default, "watched": watched}
        act = SystemAct("rift repo push", told, deps.clock.monotonic())
        return await actions.set_push(deps, act, name, default=default, watched=watched)

    repo = said(with_system(data, change))
    if as_json:
        told = {"repo": repo.full, "default_branch": repo.push_default, "watched": repo.push_watched}
        print(json.dumps(told, indent=2))
        return
    kinds = (("its default branch", repo.push_default), ("watched refs", repo.push_watched))
    barred = [what for what, open in kinds if not open]
    print(f"Boxes of {repo.full} push to any branch{' but ' if barred else ''}{' and '.join(barred)}.")


@app.command("rename")
def rename(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="What it is called now.")],
    new: Annotated[str, typer.Argument(metavar="NEW_OWNER/NAME", help="What agents will call it.")],
    data: DataOption = None,
) -> None:
    """Give a repository another name.

    Its watches, boxes and secrets stay. One of GitHub's is renamed there.

    Example: rift repo rename acme/app acme/app-mirror
    """
    from rift.origins import actions

    repo = said(with_system(data, lambda deps: actions.rename(deps, name, new)))
    print(f"It is {repo.full} now.")


@app.command("limits")
def limits(
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Which repository.")],
    memory: Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="As 8GiB; of the whole box.")] = None,
    processes: Annotated[str | None, typer.Option("--processes", metavar="N", help="Threads count.")] = None,
    disk: Annotated[str | None, typer.Option("--disk", metavar="SIZE", help="As 50GiB.")] = None,
    cpu_shares: Annotated[str | None, typer.Option("--cpu-shares", metavar="N", help="1024 is usual.")] = None,
    open_files: Annotated[str | None, typer.Option("--open-files", metavar="N", help="Of one process.")] = None,
    default: Annotated[bool, typer.Option("--default", help="First, let all be the defaults again.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set what boxes may use.

    The limits of a repository's boxes; without options, show them. Counts from a box's next start.

    Example: rift repo limits acme/app --memory 8GiB --processes 4096
    """
    from rift.limits.actions import set_limits
    from rift.limits.model import Change, spelled

    asked = {"memory": memory, "processes": processes, "disk": disk, "cpu_shares": cpu_shares, "open_files": open_files}
    change = Change({limit: text for limit, text in asked.items() if text is not None}, default)
    found = said(with_system(data, lambda deps: set_limits(deps, name, change)))
    if as_json:
        print(json.dumps({"repo": found.repo, **found.values, "own": sorted(found.own)}, indent=2))
        return
    told = [
        f"{limit.replace('_', ' ')} {spelled(limit, value)}" + (" (its own)" if limit in found.own else "")
        for limit, value in found.values.items()
    ]
    print(f"A box of {found.repo} may use: {', '.join(told)}.")
    if found.changed:
        print("New boxes start with these; warm ones are made anew; those at work get them at their next start.")
