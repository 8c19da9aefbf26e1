"""What this host has of Nix, and what it lacks."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from rift.drivers.nix.local.expression import SYSTEMS

OLDEST = (2, 4)
"""The first Nix with flakes as they are."""
PACKAGE = "sudo apt install nix-bin"


def system() -> str:
    """Nix's name of what this host runs."""
    machine = os.uname().machine
    return SYSTEMS.get(machine, f"{machine}-linux")


def lacking(places: str) -> str | None:
    """Why no environment is built here, as a sentence with its mend; None where they are."""
    path = shutil.which("nix", path=places)
    if path is None or shutil.which("nix-store", path=places) is None:
        return (
            "This host has no Nix, which builds what a repository's flake.nix asks for. "
            f"Install it with `{PACKAGE}`, or as https://nixos.org/download says for your distribution's own package."
        )
    if os.path.realpath(path).startswith("/nix/"):
        return (
            f"{path} stands in /nix/store, in whose place builds have a store of their repository's own. "
            f"Install the distribution's Nix beside it: `{PACKAGE}`."
        )
    told = version(path, Path(path).stat().st_mtime_ns)
    if told is None:
        return f"{path} does not say which version it is. Install it anew: `{PACKAGE}`."
    if told < OLDEST:
        return (
            f"Nix {'.'.join(map(str, told))} is older than {'.'.join(map(str, OLDEST))}, the first with flakes. "
            f"Install a newer one: `{PACKAGE}`."
        )
    return None


@functools.lru_cache(maxsize=4)
def version(path: str, changed: int) -> tuple[int, ...] | None:
    """The version of the Nix there; `changed` is when it was installed, as another one may come in its place."""
    try:
        said = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "NIX_CONF_DIR": "/nonexistent"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    numbers = re.search(r"(\d+)\.(\d+)", said)
    return tuple(map(int, numbers.groups())) if numbers else None
