"""Each test of the suite runs once with each forge; a kit is how a test changes the repository behind it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Protocol

import pytest
from tests.conformance.keeper.keeping import Keeper

from rift.drivers.forge.fake import FakeForge
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.local.driver import PUSH_LIMIT
from rift.drivers.forge.local.reader import Reader
from rift.drivers.forge.local.sessions import Sessions
from rift.drivers.forge.protocol import Forge
from rift.drivers.forge.remote import RemoteForge
from rift.keeper.checks import Bounds

NOBODY = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENVIRONMENT = NOBODY | {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}

NONE = "0" * 40
EMPTY = b"PACK\0\0\0\2\0\0\0\0" + bytes.fromhex("029d08823bd8a8eab510ad6ac75c823cfd3ed31e")
"""The pack of a push whose commits are at the origin already."""
GROUP = 699_999
POINTED = {
    ".gitattributes": "*.bin filter=lfs\n",
    "a.bin": f"version https://git-lfs.github.com/spec/v1\noid sha256:{'1' * 64}\nsize 5\n",
}
"""Files of a commit that keeps one in LFS."""


class Kit(Protocol):
    """A forge, one repository of it, and where it is mirrored."""

    forge: Forge
    url: str
    mirror: Path

    def commit(self, branch: str) -> str: ...
    def delete(self, branch: str) -> None: ...
    def name(self, branch: str | None) -> None: ...
    def remove(self) -> None: ...
    def pins(self) -> dict[str, str]: ...
    def has(self, commit: str) -> bool: ...


class LocalKit:
    """A repository in a folder, through git."""

    def __init__(self, folder: Path) -> None:
        self.forge: Forge = LocalForge()
        self.source = folder / "source.git"
        self.url = str(self.source)
        self.mirror = folder / "mirrors" / "app.git"
        self._count = 0
        self.git(folder, "init", "-q", "--bare", "-b", "main", str(self.source))

    def git(self, folder: Path, *words: str, stdin: IO[str] | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", folder, *words], env=ENVIRONMENT, check=True, capture_output=True, text=True, stdin=stdin
        )
        return done.stdout.strip()

    def commit(self, branch: str) -> str:
        self._count += 1
        tree = self.git(self.source, "hash-object", "-w", "-t", "tree", "/dev/null")
        commit = self.git(self.source, "commit-tree", tree, "-m", f"commit {self._count}")
        self.git(self.source, "update-ref", f"refs/heads/{branch}", commit)
        return commit

    def files(self, texts: dict[str, str], links: Mapping[str, str] = MappingProxyType({})) -> str:
        """A commit of these files on `main`, and of submodules at these commits."""
        lines = [f"160000 commit {commit}\t{name}\n" for name, commit in links.items()]
        for name, text in sorted(texts.items()):
            (self.source / "text").write_text(text)
            lines.append(f"100644 blob {self.git(self.source, 'hash-object', '-w', 'text')}\t{name}\n")
        (self.source / "text").write_text("".join(lines))
        with (self.source / "text").open() as listed:
            tree = self.git(self.source, "mktree", stdin=listed)
        commit = self.git(self.source, "commit-tree", tree, "-m", "files")
        self.git(self.source, "update-ref", "refs/heads/main", commit)
        return commit

    def name(self, branch: str | None) -> None:
        head = ["symbolic-ref", "HEAD", f"refs/heads/{branch}"]
        self.git(self.source, *(head if branch else ["update-ref", "--no-deref", "HEAD", "refs/heads/main"]))

    def delete(self, branch: str) -> None:
        self.git(self.source, "update-ref", "-d", f"refs/heads/{branch}")

    def remove(self) -> None:
        self.source.rename(self.source.with_name("gone"))

    def pins(self) -> dict[str, str]:
        listed = self.git(self.mirror, "for-each-ref", "--format=%(refname) %(objectname)", "refs/rift/boxes/")
        return {name.removeprefix("refs/rift/boxes/"): commit for name, commit in map(str.split, listed.splitlines())}

    def has(self, commit: str) -> bool:
        done = subprocess.run(["git", "-C", self.mirror, "cat-file", "-e", commit], env=ENVIRONMENT, check=False)
        return done.returncode == 0


class FakeKit:
    """A repository in memory."""

    def __init__(self, folder: Path) -> None:
        self.fake = FakeForge()
        self.forge: Forge = self.fake
        self.url = "fake://app"
        self.mirror = folder / "app.git"
        self.fake.repositories[self.url] = {}
        self._count = 0

    def commit(self, branch: str) -> str:
        self._count += 1
        self.fake.repositories[self.url][branch] = f"{self._count:040x}"
        return f"{self._count:040x}"

    def name(self, branch: str | None) -> None:
        self.fake.defaults[self.url] = branch

    def delete(self, branch: str) -> None:
        del self.fake.repositories[self.url][branch]

    def remove(self) -> None:
        del self.fake.repositories[self.url]

    def pins(self) -> dict[str, str]:
        return self.fake.mirrors[self.mirror].pins

    def has(self, commit: str) -> bool:
        return commit in self.fake.mirrors[self.mirror].commits


@pytest.fixture(params=["fake", "local", "remote"])
async def kit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kit]:
    """One of the forges under test; `remote` is the local one, asked by a server without privileges."""
    if request.param != "remote":
        yield FakeKit(tmp_path) if request.param == "fake" else LocalKit(tmp_path)
        return
    kit = LocalKit(tmp_path)
    (tmp_path / "data").mkdir()
    kit.mirror = tmp_path / "data" / "mirrors" / "app"
    keeper = Keeper(Bounds(tmp_path / "data", ""), {"forge": kit.forge})
    kit.forge = RemoteForge(await keeper.open())
    yield kit
    await keeper.close()


@pytest.fixture
def local(tmp_path: Path) -> LocalKit:
    """The local forge, for what only it does."""
    return LocalKit(tmp_path)


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder in which users without rights may pass: pytest's own are closed to them."""
    with tempfile.TemporaryDirectory(prefix="rift-sessions-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def made_local(sessions: Sessions | None = None, push_limit: int = PUSH_LIMIT) -> LocalForge:
    """The local forge as it is here: as root, a user without rights reads what strangers sent."""
    reader = Reader(GROUP + 1, GROUP) if os.geteuid() == 0 else None
    return LocalForge(reader=reader, sessions=sessions, push_limit=push_limit)


async def drained(kit: LocalKit, session: str) -> bytes:
    """The whole answer."""
    told = b""
    try:
        async with asyncio.timeout(60):
            while (more := await kit.forge.drain(session)) is not None:
                told += more
    finally:
        await kit.forge.close(session)
    return told
