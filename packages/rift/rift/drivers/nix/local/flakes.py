"""Whether a commit has a flake that is any of ours, told by git alone: cheap, and nothing is evaluated."""

from __future__ import annotations

from pathlib import Path

from rift.drivers.forge.local.git import git
from rift.drivers.forge.protocol import ForgeError
from rift.drivers.nix.protocol import BuildError

FLAKE, OURS = "flake.nix", "fixed-labs"
LOOK_SECONDS = 30.0


async def ours(mirror: Path, commit: str) -> bool:
    """Whether `fixed-labs` occurs in the flake.nix of a commit. Raises BuildError where git cannot tell.

    One that is no plain file may lead anywhere: whoever builds finds that out.
    """
    try:
        listed = await git(f"--git-dir={mirror}", "ls-tree", "-z", commit, "--", FLAKE, seconds=LOOK_SECONDS)
        if not listed:
            return False
        mode, _, name = listed.partition("\t")[0].split()
        if not mode.startswith("100"):
            return True
        return OURS in await git(f"--git-dir={mirror}", "cat-file", "blob", name, seconds=LOOK_SECONDS)
    except ForgeError as error:
        raise BuildError(f"{FLAKE} of {commit} cannot be read: {error.reason}") from error
