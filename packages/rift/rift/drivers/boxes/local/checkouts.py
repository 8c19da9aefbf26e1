"""What the launcher is told of a checkout, from what the forge gathered for its commit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rift.drivers.boxes.protocol import BoxSpec

OURS = "/run/rift"
OBJECTS = f"{OURS}/objects"
MODULES = f"{OURS}/modules"
LFS = f"{OURS}/lfs"
"""Beside the objects: there git-lfs looks for the content that goes with borrowed ones."""
IN_JAILS = "/usr/local/bin:/usr/bin:/bin"
LFS_CONFIG = (
    '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tsmudge = git-lfs smudge -- %f\n'
    "\tprocess = git-lfs filter-process\n\trequired = true\n"
)
"""What `git lfs install --system` writes."""


def git_lfs() -> str | None:
    """The host's git-lfs, where jails have it too."""
    return shutil.which("git-lfs", path=IN_JAILS)


def shown(mirror: Path) -> Iterator[tuple[Path, str]]:
    """The folders of a mirror that a jail sees, and where. Those of submodules and LFS files come and go with them."""
    yield mirror / "objects", OBJECTS
    for name, target in (("modules", MODULES), ("lfs", LFS)):
        if (mirror / name).is_dir():
            yield mirror / name, target


def plan(spec: BoxSpec, git: str) -> dict[str, Any]:
    """The checkout of a box, as `checkout.py` takes it; its path is relative to the box's folder."""
    return {
        "git": git,
        "path": f"home/{spec.short_repository}",
        "ref": spec.ref,
        "commit": spec.commit,
        "mirror": str(spec.mirror),
        "origin": spec.origin,
        "alternate": OBJECTS,
        "modules_at": str(spec.mirror / "modules"),
        "modules_shown": MODULES,
        "lfs_at": str(spec.mirror),
        "lfs_shown": OURS,
        "git_lfs": git_lfs(),
        "gathered": _gathered(spec),
    }


def _gathered(spec: BoxSpec) -> dict[str, Any] | None:
    """What the forge wrote of the commit, in a folder in which it alone writes; None where it gathered nothing."""
    try:
        told = json.loads((spec.mirror / "rift" / f"{spec.commit}.json").read_text())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None
