"""`onbe keys …`: the keys that sign tokens. No private part is ever printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onbe.cli.place import DataOption, JsonOption, Place, fail, find

if TYPE_CHECKING:  # imported by the commands that need them, so that `onbe --help` is quick
    from onbe.drivers.signing.folder import KeyFolder

app = typer.Typer(help="The keys that sign tokens.", no_args_is_help=True)

OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Into a file, for Onbe:Keys:Files, instead of the data folder."),
]


@app.command("generate")
def generate(data: DataOption = None, out: OutOption = None, as_json: JsonOption = False) -> None:
    """Make the first key.

    It is kept in the data folder, readable by its owner alone, and signs from then on. Where there is one, `onbe keys
    rotate` replaces it. With --out a key is written to a file that is not there yet, and signs nothing by itself.

    Example: onbe keys generate
    """
    from onbe.drivers.signing.folder import new_key, write_new
    from onbe.drivers.signing.ring import KeyTrouble

    try:
        if out is not None:
            pem, key = new_key()
            write_new(out, pem)
            _told(key.kid, f"The key {key.kid} is in {out}: name that file in Onbe:Keys:Files.", as_json)
            return
        place, folder = _folder(data)
        if any(key.signs for key in folder.held().keys):
            fail(f"there is a key already. `{place.spelled('keys rotate')}` replaces it.")
        kid = folder.make(first=True)
    except KeyTrouble as trouble:
        fail(str(trouble))
    _told(kid, f"The key {kid} signs tokens from now on.", as_json)


@app.command("rotate")
def rotate(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Replace the key.

    A new key signs from now on, also in a server that runs. The one of before stays published, so that what it signed
    stays good.

    Example: onbe keys rotate
    """
    from onbe.drivers.signing.ring import KeyTrouble

    place, folder = _folder(data)
    try:
        if not any(key.signs for key in folder.held().keys):
            fail(f"there is no key yet. `{place.spelled('keys generate')}` makes one.")
        kid = folder.make(first=False)
    except KeyTrouble as trouble:
        fail(str(trouble))
    named = place.settings.keys.active
    stays = f" once Onbe:Keys:Active does not name {named} any more" if named else " from now on"
    _told(kid, f"The key {kid} signs tokens{stays}; the ones of before stay published.", as_json)


@app.command("ls")
def list_keys(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the keys.

    Those that are published: the one that signs first, then those of before.

    Example: onbe keys ls --json
    """
    from onbe.drivers.signing.local import given_keys, ring_of
    from onbe.drivers.signing.ring import KeyTrouble

    place = find(data, make=False)
    try:
        if not given_keys(place.settings) and not _keys_of(place).held().keys:
            print("[]" if as_json else f"No key yet: `{place.spelled('keys generate')}` makes one.")
            return
        ring = ring_of(place.settings, place.data)
    except KeyTrouble as trouble:
        fail(str(trouble))
    rows = [
        {**public, "active": public["kid"] == ring.active.kid, "signs": ring.keys[public["kid"]].signs}
        for public in ring.jwks()["keys"]
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['kid']}  {row['alg']}  {'signs' if row['active'] else 'published for what it signed'}")


def _folder(data: Path | None) -> tuple[Place, KeyFolder]:
    place = find(data)
    if place.settings.keys.files or place.settings.keys.pem:
        fail(
            "the settings name the keys (Onbe:Keys:Files, Onbe:Keys:Pem), so that those of the data folder are not "
            f"used. `{place.spelled('keys generate')} --out FILE` makes one to add to them; Onbe:Keys:Active names "
            "the one that signs."
        )
    return place, _keys_of(place)


def _keys_of(place: Place) -> KeyFolder:
    from onbe.drivers.signing.folder import KeyFolder

    return KeyFolder(place.data / "keys")


def _told(kid: str, sentence: str, as_json: bool) -> None:
    print(json.dumps({"kid": kid}) if as_json else sentence)
