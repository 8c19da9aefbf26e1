"""Where pushes of boxes are unpacked: a folder a session beside the mirrors, gone with it, swept where it was not."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

from keel.ids import Ids
from keel.sizes import MIB
from rift.drivers.forge.local.git import Floor
from rift.drivers.forge.local.reader import Reader
from rift.drivers.forge.local.receiving import Room
from rift.drivers.forge.protocol import ForgeError
from rift.drivers.locks import locked, unlocked

PREFIX = ".push-"
LEAST = 16 * MIB
"""With less room than this above that, no push is begun."""


class Quarantine:
    """`reader` is who unpacks, `limit` the most bytes of one push, `kept_free` those of the disk that none takes."""

    def __init__(self, reader: Reader | None, limit: int, kept_free: int, ids: Ids) -> None:
        self._reader = reader
        self._limit = limit
        self._kept_free = kept_free
        self._ids = ids

    async def room(self, mirror: Path) -> Room:
        """A fresh folder, of which only the reader may know. Raises ForgeError when the disk has no room."""
        parent = mirror.parent
        await asyncio.to_thread(_sweep, parent)
        free = (await asyncio.to_thread(shutil.disk_usage, parent)).free - self._kept_free
        if free < LEAST:
            raise ForgeError("the host has no room for a push: its disk is full; tell the platform admin")
        folder = parent / f"{PREFIX}{self._ids.hex(16)}"
        async with AsyncExitStack() as keeps:
            await keeps.enter_async_context(locked(folder.with_name(f"{folder.name}.lock")))
            keeps.callback(shutil.rmtree, folder, ignore_errors=True)
            await asyncio.to_thread(self._make, folder)
            return Room(folder, min(self._limit, free), Floor(folder, self._kept_free), keeps.pop_all())

    def _make(self, folder: Path) -> None:
        (folder / "objects" / "pack").mkdir(parents=True)
        for path in (folder, folder / "objects", folder / "objects" / "pack"):
            path.chmod(0o700)
            if self._reader is not None:
                os.chown(path, self._reader.uid, self._reader.gid)


def _sweep(parent: Path) -> None:
    """Remove what a process that was killed left: its lock went with it."""
    for folder in parent.glob(f"{PREFIX}*"):
        if folder.is_dir() and not folder.is_symlink() and unlocked(folder.with_name(f"{folder.name}.lock")):
            shutil.rmtree(folder, ignore_errors=True)
