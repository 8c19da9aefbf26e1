"""`rift vault …`: the keys that seal secrets in the database. No key is ever printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from rift.cli.place import DataOption, JsonOption, fail, find, with_system

if TYPE_CHECKING:  # imported by the commands that need them, so that `rift --help` is quick
    from keel.vault_folder import FolderKeys
    from rift.deps import Deps
    from rift.sealed import Resealed, Sealed

Result = TypeVar("Result")

app = typer.Typer(help="The keys that seal secrets.", no_args_is_help=True)


@app.command("status")
def status(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show which key sealed what.

    The keys, how many secrets each has sealed, and whether any cannot be opened; then the exit code is 1.

    Example: rift vault status
    """
    from rift import app as rift
    from rift import sealed

    async def act(deps: Deps) -> Sealed:
        return await sealed.look(deps, rift.SEALED)

    found = _trouble(lambda: with_system(data, act))
    place = find(data)
    made = {} if place.settings.vault.keys else {key.id: key.made_at for key in _folder_of(place.data).listed()}
    ids = sorted(found.here | set(found.keys), key=lambda id: (id == found.newest, id in made and made[id].timestamp()))
    if as_json:
        rows = [
            {
                "key": id.hex(), "seals": id == found.newest, "here": id in found.here, "secrets": found.keys[id],
                "made_at": made[id].isoformat() if id in made else None,
            }
            for id in ids
        ]  # fmt: skip
        print(json.dumps({"keys": rows, "tables": {name: sum(one.values()) for name, one in found.tables.items()}}))
        raise typer.Exit(1 if found.shut else 0)
    for id in ids:
        state = "seals" if id == found.newest else "older" if id in found.here else "NOT HERE"
        since = f"  made {made[id]:%Y-%m-%d}" if id in made else ""
        print(f"{id.hex()}  {state}  {_many(found.keys[id])} sealed by it{since}")
    if not ids:
        print("No key yet: the first one is made at the first start, or when something is sealed.")
    if found.shut:
        print(
            f"{_many(found.shut)} cannot be opened: put the key files of your backup into "
            f"{place.data / 'vault'}, or set those secrets again."
        )
        raise typer.Exit(1)


@app.command("rotate")
def rotate(data: DataOption = None) -> None:
    """Seal everything by a new key.

    Servers that run seal by it at once. The older key stays until `rift vault prune`, and in your older backups.

    Example: rift vault rotate
    """
    from rift import app as rift
    from rift import sealed

    folder = _folder(data)

    async def act(deps: Deps) -> tuple[str, Resealed]:
        return await sealed.rotate(deps, folder, rift.SEALED)

    key, again = _trouble(lambda: with_system(data, act))
    print(f"The key {key} seals from now on; {_many(again.done)} sealed again by it.")
    if again.shut:
        print(f"{_many(again.shut)} cannot be opened: `rift vault status` says more.")


@app.command("prune")
def prune(data: DataOption = None) -> None:
    """Remove older keys.

    Those by which nothing is sealed any more, ten minutes after they were replaced. A backup of the database from
    before still needs them: keep the folder that you saved with it.

    Example: rift vault prune
    """
    from rift import app as rift
    from rift import sealed

    folder = _folder(data)

    async def act(deps: Deps) -> tuple[list[str], list[str]]:
        return await sealed.prune(deps, folder, rift.SEALED)

    gone, stay = _trouble(lambda: with_system(data, act))
    for key in gone:
        print(f"The key {key} is gone.")
    for key in stay:
        print(f"The key {key} stays: secrets are sealed by it, or it was replaced less than ten minutes ago.")
    if not gone and not stay:
        print("There is no older key.")


def _folder(data: Path | None) -> FolderKeys:
    place = find(data)
    if place.settings.vault.keys:
        fail(
            "the settings hold the keys (Rift:Vault:Keys): put a new one last (`openssl rand -base64 32` makes one) on "
            f"every machine, and start them again. `{place.spelled('vault status')}` tells when the older one can go."
        )
    return _folder_of(place.data)


def _folder_of(data: Path) -> FolderKeys:
    from keel.vault_folder import FolderKeys

    return FolderKeys(data / "vault")


def _many(count: int) -> str:
    return "1 secret" if count == 1 else f"{count} secrets"


def _trouble(act: Callable[[], Result]) -> Result:
    """What it gives; keys that cannot be used are a sentence."""
    from keel.vault import VaultTrouble

    try:
        return act()
    except VaultTrouble as trouble:
        fail(f"{trouble}.")
