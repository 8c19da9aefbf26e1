"""Where what was built is, whose it is, and what is known of each build.

    <data>/nix/<repo>/store     bound at /nix/store, of the jail and of the repository's boxes; its owner builds
                     /var       bound at /nix/var: Nix's own database
                     /work      what one build uses: source, home, temporary files
                     /builds/<build>/log, built.json, dropped, .lock

All that a jail can write is in the first three. Nothing in them is followed or believed out here.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.boxes.local import places, processes
from rift.drivers.locks import unlocked
from rift.drivers.nix.local.config import NixConfig
from rift.drivers.nix.protocol import BuildError

LOOKS, LOOK_SECONDS = 1000, 0.01
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one repository; `uid` is whose builds are, None where they are of whoever runs this."""

    path: Path
    uid: int | None

    @property
    def store(self) -> Path:
        return self.path / "store"

    @property
    def var(self) -> Path:
        return self.path / "var"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def builds(self) -> Path:
        return self.path / "builds"

    @property
    def lock(self) -> Path:
        return self.path.parent / f".lock-{self.path.name}"

    @property
    def group(self) -> str:
        """The name of its cgroups, which is no box's."""
        return f".nix-{self.path.name}"


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of one build."""

    path: Path

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    def fresh(self) -> int:
        """Begin anew, and return a descriptor to write its log by."""
        for name in ("log", "built.json", "dropped"):
            (self.path / name).unlink(missing_ok=True)
        return os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def done(self, roots: tuple[str, ...]) -> None:
        """Write down what is to be kept in the store for it."""
        draft = self.path / ".built.new"
        draft.write_text(json.dumps(roots))
        draft.replace(self.path / "built.json")

    def roots(self) -> tuple[str, ...]:
        """What is to be kept in the store for it."""
        try:
            return tuple(json.loads((self.path / "built.json").read_text()))
        except FileNotFoundError:
            return ()

    def drop(self) -> None:
        """Have it go with the next collection; it is unknown from now on."""
        if not self.running():
            (self.path / "dropped").touch()

    @property
    def dropped(self) -> bool:
        return (self.path / "dropped").exists()

    def running(self) -> bool:
        return not unlocked(self.lock)


def check(name: str) -> str:
    """The name of a repository or build. Raises BuildError where it can be no folder's."""
    if not NAME.fullmatch(name):
        raise BuildError(f"{name!r} is no id of a repository or a build")
    return name


def find(config: NixConfig, repo: str) -> Place | None:
    """The folder of a repository, or None where nothing was ever built for it."""
    path = config.folder / check(repo)
    try:
        owner = (path / "store").lstat().st_uid
    except FileNotFoundError:
        return None
    boxes = config.boxes
    own = places.as_root() and boxes.first_uid <= owner < boxes.first_uid + boxes.uids
    return Place(path, owner if own else None)


def make(config: NixConfig, repo: str) -> Place:
    """Make what is absent of a repository's folder, as root with a uid that no box and no other repository has.

    Call it with the lock of all uids held. Boxes' users may pass through it, and through nothing else of it than the
    store. Raises OSError, DriverError.
    """
    root = places.as_root()
    for folder in (config.folder, config.folder / check(repo)):
        folder.mkdir(mode=0o711 if root else 0o700, exist_ok=True)
    found = find(config, repo)
    uid = found.uid if found else places.free_uid(config.boxes, processes.living_uids()) if root else None
    place = Place(config.folder / repo, uid)
    if root:
        os.chown(place.path, -1, config.boxes.group)
        place.path.chmod(0o750)
    place.builds.mkdir(mode=0o700, exist_ok=True)
    for folder, mode in ((place.var, 0o700), (place.store, 0o755)):  # the store last: its owner is the record
        folder.mkdir(mode=mode, exist_ok=True)
        if uid is not None:
            os.chown(folder, uid, config.boxes.group, follow_symlinks=False)
    return place


def make_work(config: NixConfig, place: Place) -> None:
    """The empty folders of one build. What was there has to be gone."""
    place.work.mkdir(mode=0o711)
    for name in ("src", "home", "tmp"):
        folder = place.work / name
        folder.mkdir(mode=0o700)
        if place.uid is not None:
            os.chown(folder, place.uid, config.boxes.group)


def record(place: Place, build: str) -> Record:
    """The record of a build, its folder made where it is absent."""
    path = place.builds / check(build)
    path.mkdir(mode=0o700, exist_ok=True)
    return Record(path)


def records(place: Place) -> list[Record]:
    """All builds of a repository that anything is known of."""
    with suppress(FileNotFoundError):
        return [Record(path) for path in sorted(place.builds.iterdir()) if NAME.fullmatch(path.name)]
    return []


def known(config: NixConfig, build: str) -> Record | None:
    """The record of a build of whichever repository; None of one that is unknown, or to go."""
    check(build)
    with suppress(FileNotFoundError):
        for folder in config.folder.iterdir():
            found = Record(folder / "builds" / build)
            if NAME.fullmatch(folder.name) and found.path.is_dir() and not found.dropped:
                return found
    return None


def forget(record: Record) -> None:
    """Remove what is known of a build."""
    shutil.rmtree(record.path, ignore_errors=True)


def missing(place: Place, paths: Sequence[str]) -> list[str]:
    """Those of these paths of the store that there are not."""
    return [path for path in paths if not os.path.lexists(place.store / Path(path).name)]


async def end_leftovers(place: Place) -> None:
    """End what a build left that ended with its keeper. Call it with its lock held. Raises BuildError.

    Known by what their jail has for /nix/var, which no box has.
    """
    try:
        wanted = await asyncio.to_thread(place.var.stat)
    except FileNotFoundError:
        return
    for _ in range(LOOKS):
        if not await asyncio.to_thread(_kill_in, wanted):
            return
        await asyncio.sleep(LOOK_SECONDS)  # until the kernel has let go of them
    raise BuildError(f"Processes of a build of {place.path.name} do not end.")


def _kill_in(wanted: os.stat_result) -> bool:
    """Kill whoever has this folder for /nix/var; whether there was anybody."""
    found = False
    for name in Path("/proc").iterdir():
        if name.name.isdigit() and int(name.name) != os.getpid():
            with suppress(OSError):
                if os.path.samestat((name / "root/nix/var").stat(), wanted):
                    os.kill(int(name.name), signal.SIGKILL)
                    found = True
    return found
