"""What is in a commit of a bare repository, read without a checkout."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.forge.local.git import run, shown
from rift.drivers.forge.protocol import ForgeError

SECONDS = 120.0
LINK = "160000"
FILES = ("100644", "100755")
TEXT_MOST = 1024 * 1024
"""Bytes that are read of a file in which a repository lists what it needs."""
BATCH = 2000


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a tree: its mode as git writes it, its object, its size in bytes (0 for a submodule)."""

    mode: str
    object: str
    size: int
    path: str


async def entries(repository: Path, commit: str) -> list[Entry]:
    """Every path of the commit. Raises ForgeError, also where the repository has no such commit."""
    ran = await run(f"--git-dir={repository}", "ls-tree", "-r", "-z", "-l", "--full-tree", commit, seconds=SECONDS)
    if ran.code:
        raise ForgeError(shown(ran.err) or f"{commit} cannot be read")
    found = []
    for line in ran.text.split("\0"):
        told, tab, path = line.partition("\t")
        if tab:
            mode, _, name, size = told.split()
            found.append(Entry(mode, name, int(size) if size.isdigit() else 0, path))
    return found


async def contents(repository: Path, objects: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
    """Each object with its bytes, in their order; one that is missing is left out."""
    for start in range(0, len(objects), BATCH):
        asked = "".join(f"{name}\n" for name in objects[start : start + BATCH]).encode()
        ran = await run(f"--git-dir={repository}", "cat-file", "--batch", seconds=SECONDS, given=asked)
        told, at = ran.out, 0
        while (end := told.find(b"\n", at)) >= 0:
            words = told[at:end].split()
            at = end + 1
            if len(words) == 3:
                size = int(words[2])
                yield words[0].decode(), told[at : at + size]
                at += size + 1


async def modules_file(repository: Path, object: str) -> bytes:
    """A `.gitmodules` as `git config` lists it, its own rules applied. Raises ForgeError where it is none."""
    ran = await run(
        f"--git-dir={repository}", "config", "--no-includes", "--null", f"--blob={object}", "--list", seconds=SECONDS
    )
    if ran.code:
        raise ForgeError(shown(ran.err) or "it cannot be read")
    return ran.out
