"""What this host has of control groups for boxes: a plan, read from /proc and the trees, which makes nothing.

What there is differs: one tree of version 2, a tree a controller of version 1, both (hybrid), or nothing that may be
written to. In each tree the boxes of a data folder stand below one group named after that folder, so that two Rifts
on a host do not meet (`groups`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CONTROLLERS = ("memory", "pids", "cpu")
MAIN = "rift-main"
"""The group that the processes of a delegated version 2 group move into, as one that has groups may have none."""


@dataclass(frozen=True, slots=True)
class Mounted:
    """One mounted tree: where it is, which of it is mounted there, and its controllers (None: version 2)."""

    point: Path
    root: str
    controllers: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Where boxes' groups go.

    `v1`: by controller, the group below which ours stand. `v2`: the same for the tree of version 2, None where there
    is none that we may write to, with the controllers it offers there. `crowded`: processes are in the group `v2`
    itself and have to move into one beside ours first. `mounted`: there are some, of whatever use to us. `why`: a
    sentence's part where nothing can be had.
    """

    v1: Mapping[str, Path] = field(default_factory=dict[str, Path])
    v2: Path | None = None
    v2_controllers: frozenset[str] = frozenset()
    crowded: bool = False
    mounted: bool = False
    why: str = ""

    def holds(self, controller: str) -> bool:
        """Whether cgroups hold this limit."""
        return controller in self.v1 or (self.v2 is not None and controller in self.v2_controllers)


def mounted(mountinfo: str) -> list[Mounted]:
    """The trees in the text of /proc/self/mountinfo."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        point = Path(fields[4].replace("\\040", " "))
        controllers = None if kind[0] == "cgroup2" else frozenset(kind[2].split(",")) & frozenset(CONTROLLERS)
        found.append(Mounted(point, fields[3], controllers))
    return found


def own_groups(text: str) -> dict[str, str]:
    """This process's group by controller ("" is version 2), from the text of /proc/self/cgroup."""
    own = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path))
    return own


def place(tree: Mounted, own: str | None) -> Path | None:
    """The folder of a group in a mounted tree, None where it is not mounted there."""
    if own is None or "/.." in own:
        return None
    root = tree.root.rstrip("/")
    if own != root and not own.startswith(f"{root}/"):
        return None
    return tree.point / own[len(root) :].lstrip("/")


def plan(mountinfo: str, own_text: str, *, root: bool, systemd: bool) -> Plan:
    """What can be had here. Looks at who may write where, and makes nothing.

    Root's groups stand at the top of each tree, apart from the service or the session that Rift was started in:
    boxes outlive it. A user's stand in the group that Rift itself runs in, if it was delegated to the user.
    """
    own = own_groups(own_text)
    v1: dict[str, Path] = {}
    v2, offered, crowded = None, frozenset[str](), False
    trees = mounted(mountinfo)
    for tree in trees:
        if tree.controllers is not None:
            for controller in tree.controllers:
                group = tree.point if root else place(tree, own.get(controller))
                if group is not None and _writable(group):
                    v1.setdefault(controller, group)
        elif v2 is None:
            group = tree.point if root else _delegated(tree, own.get(""), systemd=systemd)
            if group is not None and _writable(group):
                v2, offered = group, frozenset(words_of(group / "cgroup.controllers")) & frozenset(CONTROLLERS)
                # The one group that may have both processes and groups is the very top one, which has no type.
                crowded = (group / "cgroup.type").exists()
    why = "" if v1 or v2 else _why(trees, root=root)
    return Plan(v1, v2, offered, crowded, bool(trees), why)


def _delegated(tree: Mounted, own: str | None, *, systemd: bool) -> Path | None:
    """The group of version 2 that this process's user may do with as they like: its own, or that around MAIN."""
    group = place(tree, own)
    if group is None:
        return None
    if group.name == MAIN:
        group = group.parent
    # An older systemd does not say which it delegated; those that `systemd-run` made are nobody else's.
    delegated = _attribute(group, "user.delegate") == b"1" or group.name.startswith(("run-", "rift"))
    return group if delegated or not systemd else None


def _why(trees: Sequence[Mounted], *, root: bool) -> str:
    if not trees:
        return "no cgroups are mounted here"
    return "the cgroups here are read-only" if root else "no cgroup here was delegated to this user"


def _attribute(path: Path, name: str) -> bytes:
    try:
        return os.getxattr(path, name)
    except OSError:
        return b""


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY


def words_of(path: Path) -> list[str]:
    """What a file of a group lists; nothing where it is not there."""
    try:
        return path.read_text("ascii").split()
    except OSError:
        return []


def text_of(path: Path) -> str:
    """A small file's text, "" where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def has_systemd() -> bool:
    """Whether systemd keeps this host's groups."""
    return Path("/run/systemd/system").is_dir()
