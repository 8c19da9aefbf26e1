"""Where a box's files are, whose they are, and who can get there."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from rift.drivers import locks
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.protocol import DriverError

#: Box ids, the older ones (a repository's name, a ref and a number) included. Names with a dot in front are ours.
BOX_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class BoxDir:
    """The folder of one box; `uid` is its host uid, None where boxes share the uid of whoever runs the driver."""

    path: Path
    uid: int | None

    @property
    def settings(self) -> Path:
        return self.path / "agent.json"

    @property
    def socket(self) -> Path:
        return self.path / "control.sock"


def as_root() -> bool:
    """Whether boxes can have host uids of their own."""
    return os.geteuid() == 0


def box_path(config: LocalConfig, box: str) -> Path:
    """The folder of a box. Raises DriverError when the id cannot be a folder's name."""
    if not BOX_ID.fullmatch(box):
        raise DriverError(f"{box!r} is not the id of a box")
    return config.boxes / box


def make_data(config: LocalConfig) -> None:
    """Make the data folder's parts. As root, boxes' users may pass through them but list nothing."""
    mode = 0o711 if as_root() else 0o700
    for folder in (config.data, config.boxes):
        folder.mkdir(mode=mode, parents=folder == config.data, exist_ok=True)
        if as_root() and folder.stat().st_mode & 0o001 == 0:
            folder.chmod(folder.stat().st_mode & 0o7777 | 0o011)
    config.lib.mkdir(exist_ok=True)
    config.lib.chmod(0o755)


def closed_parent(path: Path) -> Path | None:
    """The first folder on the way to `path`, from the top, that another user may not enter."""
    resolved = path.resolve()
    for folder in (*reversed(resolved.parents), resolved):
        if folder.is_dir() and folder.stat().st_mode & 0o001 == 0:
            return folder
    return None


def check_enterable(config: LocalConfig) -> None:
    """Raise DriverError when boxes' users could not get to their own folders, with the mend."""
    if not as_root():
        return
    folder = closed_parent(config.boxes)
    if folder is not None:
        raise DriverError(
            f"Boxes run as users of their own, and these may not enter {folder}, on the way to {config.data}. "
            f"Allow it with `chmod o+x {folder}`, or keep the data elsewhere: `--data /var/lib/rift`."
        )


def check_uids(config: LocalConfig, maps: Path = Path("/proc/self")) -> None:
    """Raise DriverError when this process may not give files to boxes' users: a container's root has few uids."""
    if not as_root():
        return
    for name, first, last in (
        ("uid_map", config.first_uid, config.reader_uid),
        ("gid_map", config.group, config.group),
    ):
        ranges = [tuple(map(int, line.split())) for line in (maps / name).read_text().splitlines()]
        if not any(start <= first and last < start + count for start, _, count in ranges):
            most = max((start + count for start, _, count in ranges), default=0)
            raise DriverError(
                f"Boxes run as users {first} to {last}, and this container has none from {most} on. "
                f"Choose others: `Rift__Boxes__UidBase={max(1001, most - config.uids - 2)}`."
            )


def find_box(config: LocalConfig, box: str) -> BoxDir | None:
    """The box's folder, or None when there is none."""
    path = box_path(config, box)
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    own = as_root() and config.first_uid <= found.st_uid < config.first_uid + config.uids
    return BoxDir(path, found.st_uid if own else None)


def make_box(config: LocalConfig, box: str, used: Callable[[], set[int]]) -> BoxDir:
    """Make the box's folder, as root with a host uid no other box has; the owner is the record of it.

    `used` tells the uids of living processes, which are left alone too: they may be another Rift's on this host.
    Call it with the lock of all uids held. Raises DriverError when all uids are taken.
    """
    found = find_box(config, box)
    if found is not None and (found.uid is not None or not as_root()):
        return found
    path = box_path(config, box)
    uid = free_uid(config, used()) if as_root() else None
    with suppress(FileExistsError):  # as root: left by a start that ended before it had an owner
        path.mkdir(mode=0o700)
    if uid is not None:
        os.chown(path, uid, config.group, follow_symlinks=False)
    return BoxDir(path, uid)


def free_uid(config: LocalConfig, taken: set[int]) -> int:
    """A host uid of our range that is none of `taken`, no box's, and none under which environments are built.

    Call it with the lock of all uids held. Raises DriverError when there is none.
    """
    taken = taken | set(_owners(config.boxes)) | set(_builders(config.data / "nix"))
    # Each data folder begins elsewhere, so that two of them seldom meet.
    start = zlib.crc32(os.fsencode(config.data.resolve())) % config.uids
    for step in range(config.uids):
        uid = config.first_uid + (start + step) % config.uids
        if uid not in taken:
            return uid
    raise DriverError(f"All {config.uids} host uids from {config.first_uid} on belong to living boxes.")


def _owners(folder: Path) -> Iterator[int]:
    """Who owns what is in a folder, in which lock files and boxes come and go meanwhile."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield entry.stat(follow_symlinks=False).st_uid


def _builders(folder: Path) -> Iterator[int]:
    """Who owns the stores of what was built, one a repository."""
    for store in folder.glob("*/store"):
        with suppress(FileNotFoundError):
            yield store.lstat().st_uid


def all_boxes(config: LocalConfig) -> list[str]:
    """The ids of all folders of boxes, sorted."""
    try:
        with os.scandir(config.boxes) as entries:
            return sorted(entry.name for entry in entries if BOX_ID.fullmatch(entry.name))
    except FileNotFoundError:
        return []


def locked(config: LocalConfig, name: str) -> AbstractAsyncContextManager[int]:
    """Hold the lock `name` among all replicas on this host; it goes with its holder, however that ends."""
    return locks.locked(config.boxes / f".lock-{name}")
