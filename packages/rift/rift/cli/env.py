"""`rift env …`: environments, tried before they are pushed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from rift.cli.place import DataOption, JsonOption, find, loop, note

if TYPE_CHECKING:
    from rift.drivers.nix.local import LocalBuilder
    from rift.drivers.nix.local.folder import Folder
    from rift.drivers.nix.protocol import Built

app = typer.Typer(help="What a repository's flake.nix gives its boxes.", no_args_is_help=True)

LOOK_SECONDS = 0.2


@app.callback()
def group() -> None:
    """What a repository's flake.nix gives its boxes."""


@app.command("check")
def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The folder with flake.nix.")] = Path(),
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try a folder's flake as Rift would.

    It is built, and what boxes would have is told. No server is needed, and nothing is pushed. Of a git repository it
    is the files that git knows, as they are now; of another folder all files. What Nix says is shown on the way. The
    setup is told and not run: it runs in a box.

    The exit code is 0 where boxes would be made, 1 where the flake fails, 2 where this host cannot try it.

    Example: rift env check ~/src/app
    """
    from rift import app as composition
    from rift.drivers.nix.local.folder import Folder
    from rift.drivers.nix.protocol import BuildError, BuildInterrupted

    place = find(data)
    builder = composition.local_nix(place.settings, place.data)
    source = Folder(path.expanduser().absolute())
    try:
        left_out = source.left_out()
        lack = loop(builder.lacking()) if loop(source.has_ours()) else None
    except BuildError as error:
        _cannot(error.reason, as_json=as_json)
    if lack is not None:
        _cannot(lack, as_json=as_json)
    if left_out:
        shown = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if len(left_out) > 5 else "")
        note(f"Left out, as git does not know them (`git add` has them counted): {shown}")
    try:
        built = loop(_build(builder, source))
    except BuildInterrupted as error:
        _cannot(error.reason, as_json=as_json)
    except BuildError as error:
        if as_json:
            print(json.dumps({"ok": False, "reason": error.reason}))
        else:
            note(f"\nrift: {error.reason}")
        raise typer.Exit(1) from None
    print(_as_json(built) if as_json else _told(built))


async def _build(builder: LocalBuilder, source: Folder) -> Built | None:
    """Build it, and show what is said meanwhile."""
    repo, build = source.name, source.fresh
    building = asyncio.create_task(builder.build_from(build, repo, source))
    offset = 0
    try:
        while True:
            done, _ = await asyncio.wait([building], timeout=LOOK_SECONDS)
            while data := (await builder.log(build, offset)).data:
                offset += len(data)
                note(data.decode("utf-8", "replace").rstrip("\n"))
            if done:
                break
        built = await building
        await builder.keep(repo, (build,))
        return built
    finally:
        building.cancel()
        await asyncio.wait([building])


def _told(built: Built | None) -> str:
    if built is None:
        return "No flake.nix of this folder has fixed-labs in it: boxes would have the base environment."
    count = len(built.setup.splitlines())
    setup = f"a setup of {count} line{'s' if count != 1 else ''}, which was not run" if built.setup else "no setup"
    packages = "1 package" if len(built.paths) == 1 else f"{len(built.paths)} packages"
    variables = "1 variable" if len(built.env) == 1 else f"{len(built.env)} variables"
    lines = [f"Boxes would have {packages}, {variables}, {setup}."]
    lines += [f"  {path}" for path in built.paths]
    lines += [f"  {name}={value}" for name, value in built.env]
    lines += [f"  | {line}" for line in built.setup.splitlines()]
    return "\n".join(lines)


def _as_json(built: Built | None) -> str:
    if built is None:
        return json.dumps({"ok": True, "environment": None})
    return json.dumps(
        {
            "ok": True,
            "environment": {"packages": list(built.paths), "env": dict(built.env), "setup": built.setup},
        }
    )


def _cannot(sentence: str, *, as_json: bool) -> NoReturn:
    if as_json:
        print(json.dumps({"ok": False, "reason": sentence}))
    else:
        note(f"rift: {sentence}")
    raise typer.Exit(2)
