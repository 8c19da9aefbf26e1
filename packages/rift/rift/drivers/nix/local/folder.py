"""A folder that somebody tries out before it is pushed. Read as whoever does that, and handed into the jail as tar."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.nix.local.config import NixConfig
from rift.drivers.nix.local.flakes import FLAKE, OURS
from rift.drivers.nix.local.jail import Command
from rift.drivers.nix.local.source import UNPACK
from rift.drivers.nix.protocol import BuildError


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of a git repository that git knows, as they are in the folder now; else all files of the folder."""

    path: Path

    @property
    def name(self) -> str:
        """What stands for a repository's id: the same folder finds what was built for it before."""
        return "check-" + hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]

    @property
    def fresh(self) -> str:
        """The id of a build by this process."""
        return f"check-{os.getpid()}"

    async def has_ours(self) -> bool:
        try:
            text = await asyncio.to_thread((self.path / FLAKE).read_text, "utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError):
            if await asyncio.to_thread(self.path.is_dir):
                return False
            raise BuildError(f"{self.path} is no folder.") from None
        except OSError as error:
            raise BuildError(f"{self.path / FLAKE} cannot be read: {error.strerror}.") from error
        return OURS in text

    def left_out(self) -> list[str]:
        """Files that git does not know and is not told to ignore."""
        return self._git("ls-files", "-z", "--others", "--exclude-standard") or []

    @asynccontextmanager
    async def command(self, config: NixConfig, work: Path) -> AsyncIterator[Command]:
        names = await asyncio.to_thread(self._names)
        feed, out = os.pipe()
        try:
            tar = await asyncio.create_subprocess_exec(
                *("tar", "--create", "--file=-", f"--directory={self.path}", "--no-recursion", "--null"),
                *("--verbatim-files-from", "--files-from=-"),
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError:
            os.close(feed)
            raise BuildError("There is no tar on this host: `sudo apt install tar`.") from None
        finally:
            os.close(out)
        feeding = asyncio.create_task(tar.communicate(b"".join(os.fsencode(name) + b"\0" for name in names)))
        try:
            yield Command(("/bin/sh", "-c", UNPACK), folders={"/src": work}, writable=frozenset({"/src"}), feed=feed)
        finally:
            os.close(feed)  # tar ends by that, where the jail has not read all of it
            _, said = await feeding
        if tar.returncode:
            raise BuildError(f"{self.path} cannot be read whole: {said.decode('utf-8', 'replace').strip()[-2000:]}")

    def _names(self) -> list[str]:
        known = self._git("ls-files", "-z", "--cached")
        if known is not None:
            return [name for name in known if os.path.lexists(self.path / name)]
        names = []
        for top, folders, files in os.walk(self.path):
            there = [Path(top, name) for name in (*files, *folders)]
            names += [str(one.relative_to(self.path)) for one in there if one.is_symlink() or not one.is_dir()]
        return names

    def _git(self, *words: str) -> list[str] | None:
        """Names that git lists; None where this is no repository of git's, or there is no git."""
        own = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
        try:
            done = subprocess.run(
                ["git", *own, "-C", str(self.path), *words], capture_output=True, check=False, stdin=subprocess.DEVNULL
            )
        except FileNotFoundError:
            return None
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name] if done.returncode == 0 else None
