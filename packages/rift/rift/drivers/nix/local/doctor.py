"""What `rift doctor` says of building environments here."""

from __future__ import annotations

from rift.drivers.boxes.local.doctor import Check
from rift.drivers.nix.local.builder import LocalBuilder
from rift.drivers.nix.local.found import PACKAGE

NAME = "environments by Nix"


async def check_nix(builder: LocalBuilder) -> Check:
    """Whether flakes are built. Never a failure: only repositories with a flake need it."""
    lack = await builder.lacking()
    if lack is not None:
        return Check(NAME, True, f"No environment of a repository's flake.nix is built. {lack}", PACKAGE)
    return Check(NAME, True, "What repositories' flake.nix ask for is built by Nix, in a jail.")
