"""The git that reads what strangers sent: without the operator's configuration, credentials and, for root, rights."""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keel.sizes import GIB, KIB
from rift.drivers.forge.local.git import NO_GIT, PLAIN
from rift.drivers.forge.protocol import FEED_BYTES, ForgeError

MEMORY = 4 * GIB
"""What one such git may have of address space: a pack can promise objects that no host has room for."""
_SMALL = ("core.packedGitWindowSize=32m", "core.packedGitLimit=512m", "pack.threads=1", "pack.windowMemory=256m")


@dataclass(frozen=True, slots=True)
class Reader:
    """Who it runs as where root started Rift: a user without rights, in the group that may read mirrors."""

    uid: int
    gid: int

    def open_mirror(self, mirror: Path) -> None:
        """Let the group, and nobody else, into the mirror; its folder is the one door to what is in it."""
        found = mirror.stat()
        if found.st_gid != self.gid:
            os.chown(mirror, -1, self.gid)
        if found.st_mode & 0o7777 != 0o750:
            mirror.chmod(0o750)

    def words(self) -> tuple[str, ...]:
        """What becomes that user for good, without capabilities or a way to any, and then the program that follows."""
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise ForgeError("there is no setpriv on this host: `apt install util-linux`")
        return (setpriv, f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--no-new-privs",
                "--inh-caps=-all", "--bounding-set=-all")  # fmt: skip


async def start(
    mirror: Path,
    *words: str,
    reader: Reader | None,
    more: Mapping[str, str] | None = None,
    config: tuple[str, ...] = (),
) -> Process:
    """Start git on a mirror with its streams as pipes. Raises ForgeError."""
    if shutil.which("git") is None:
        raise ForgeError(NO_GIT)
    settings = [word for one in (*_SMALL, *config, f"safe.directory={mirror}") for word in ("-c", one)]
    return await asyncio.create_subprocess_exec(
        *(reader.words() if reader else ()),
        "/bin/sh",
        "-c",
        'umask 022; ulimit -v "$1"; shift; exec git "$@"',
        "git",
        str(MEMORY // KIB),
        *PLAIN,
        *settings,
        *words,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
        limit=FEED_BYTES,
        cwd="/",
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ALLOW_PROTOCOL": "none",
        }
        | dict(more or {}),
    )
