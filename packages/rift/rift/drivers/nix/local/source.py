"""What is built: a commit of a mirror, or a folder that somebody tries out. Read without a checkout on the host."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rift.drivers.boxes.local.places import as_root, closed_parent
from rift.drivers.nix.local import flakes
from rift.drivers.nix.local.config import NixConfig
from rift.drivers.nix.local.jail import Command
from rift.drivers.nix.protocol import BuildError

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

#: Runs in the jail, where nothing but the source can be written: a commit is laid out as its blobs are, byte for byte.
#: What the repository's attributes, filters and hooks say is not done: attributes of the git folder come before them.
CHECK_OUT = """
set -eu
umask 022
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0
git init --quiet --template= --object-format="$2" /tmp/work
mkdir -p /tmp/work/.git/info
echo "* -text -eol -filter -ident -working-tree-encoding" > /tmp/work/.git/info/attributes
echo /mirror > /tmp/work/.git/objects/info/alternates
git --git-dir=/tmp/work/.git --work-tree=/src -c core.protectNTFS=false -c core.protectHFS=false \\
    -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.untrackedCache=false -c gc.auto=0 \\
    read-tree --reset -u "$1"
at=$(git --git-dir=/tmp/work/.git log -1 --format=%ct "$1")
cd /src
find . -exec touch -h -d "@$at" {} +
"""

#: The same for a folder, which comes as a stream of tar.
UNPACK = """
set -eu
umask 022
cd /src
tar --extract --no-same-owner --file=-
"""


class Source(Protocol):
    """Where a flake is."""

    async def has_ours(self) -> bool:
        """Whether its flake.nix has our word in it. Raises BuildError."""

    def command(self, config: NixConfig, work: Path) -> AbstractAsyncContextManager[Command]:
        """What lays it out in the folder `work`, in the jail's /src. Raises BuildError."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a mirror."""

    mirror: Path
    commit: str

    async def has_ours(self) -> bool:
        """Whether its flake.nix has our word in it. Raises BuildError."""
        if not COMMIT.fullmatch(self.commit):
            raise BuildError(f"{self.commit!r} is not the full name of a commit.")
        return await flakes.ours(self.mirror, self.commit)

    @asynccontextmanager
    async def command(self, config: NixConfig, work: Path) -> AsyncIterator[Command]:
        if as_root():
            await asyncio.to_thread(_open, self.mirror, config.boxes.group)
        kind = "sha256" if len(self.commit) == 64 else "sha1"
        yield Command(
            ("/bin/sh", "-c", CHECK_OUT, "sh", self.commit, kind),
            folders={"/src": work, "/mirror": self.mirror / "objects"},
            writable=frozenset({"/src"}),
        )


def _open(mirror: Path, group: int) -> None:
    """Let those who build, and boxes, into the mirror; its folder is the one door to what is in it."""
    try:
        found = mirror.stat()
        if found.st_gid != group:
            os.chown(mirror, -1, group)
        if found.st_mode & 0o7777 != 0o750:
            mirror.chmod(0o750)
    except OSError as error:
        raise BuildError(f"The mirror {mirror.name} cannot be shown to the build: {error.strerror}.") from error
    closed = closed_parent(mirror.parent)
    if closed is not None:
        raise BuildError(f"Those who build may not enter {closed}, which holds the mirrors: `chmod o+x {closed}`.")
