"""Awkward repositories, byte for byte: origin, mirror, a box's checkout, a commit in the box, its push, a clone."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.behaviour.repos import awkward
from tests.behaviour.repos.awkward import ALL, git, look
from tests.conformance.drivers.kit import make_spec
from tests.conformance.drivers.plane import Plane, Seat
from tests.conformance.forges.gate import Gate

from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.protocol import BoxSpec
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.local.reader import Reader

BOX = "b-00000000000000000000000a"
OTHER = "b-00000000000000000000000b"
ME = "git -c user.name=a -c user.email=a@example.org"


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """Where origins and the data folder stand; users of boxes may pass."""
    folder = Path(tempfile.mkdtemp(prefix="rift-awkward-"))
    folder.chmod(0o755)
    (folder / "data").mkdir(mode=0o711)
    yield folder
    shutil.rmtree(folder)


class Site:
    """Boxes and the forge of one data folder, and a plane that the agents call."""

    def __init__(self, ground: Path) -> None:
        self.origins = Path(tempfile.mkdtemp(dir=ground))
        self.data = ground / "data"
        config = LocalConfig(self.data)
        reader = Reader(config.reader_uid, config.group) if os.geteuid() == 0 else None
        self.boxes = LocalBoxes(config)
        self.forge = LocalForge(data=self.data, reader=reader)
        self.plane = Plane()
        self.mirror = self.data / "mirrors" / self.origins.name

    async def take(self, origin: Path, box: str = BOX) -> tuple[Seat, tuple[str, ...]]:
        """A box at the origin's head, once it is up, and what its checkout lacks."""
        heads = await self.forge.fetch(str(origin), self.mirror)
        gathered = await self.forge.gather(str(origin), self.mirror, heads["main"])
        spec = self.spec(origin, heads["main"], box)
        seat = self.plane.seat(box, 1)
        started = await self.boxes.start(spec)
        assert started.lacks == gathered.lacks
        await seat.up()
        return seat, started.lacks

    def spec(self, origin: Path, commit: str, box: str) -> BoxSpec:
        spec = make_spec(self.plane, box, 1, 0, self.mirror, str(origin), commit)
        return dataclasses.replace(spec, repository="app")

    def tree(self, box: str = BOX) -> Path:
        return self.data / "boxes" / box / "home" / "app"


@pytest.fixture
async def site(ground: Path) -> AsyncIterator[Site]:
    one = Site(ground)
    await one.plane.serve()
    yield one
    for box in await one.boxes.inventory():
        await one.boxes.destroy(box)
    await one.plane.close()


def clone(origin: Path, name: str, branch: str = "main") -> Path:
    """What anybody would have of the origin."""
    tree = origin.parent / name
    git(origin.parent, "clone", "-q", "--recurse-submodules", "-b", branch, str(origin), str(tree))
    return tree


async def said(seat: Seat, command: str) -> str:
    """What a command in the checkout prints, which ends well."""
    code, text = await seat.run(command)
    assert code == 0, text
    return text


@pytest.mark.parametrize("kind", ALL)
async def test_a_repository_comes_to_a_box_and_back_as_it_is(
    site: Site, kind: str, needs: Callable[[str], None]
) -> None:
    if kind == "large":
        needs("git-lfs")
    origin = await asyncio.to_thread(ALL[kind], site.origins)
    seat, lacks = await site.take(origin)
    assert lacks == ()
    expected = await asyncio.to_thread(lambda: look(clone(origin, "first")))
    assert await asyncio.to_thread(look, site.tree()) == expected
    assert await said(seat, "git status --porcelain") == ""
    await said(seat, "git fsck --no-dangling 2>&1")
    await said(seat, "echo more >> README.md; mkdir -p 'od d'; echo new > 'od d/ne\nw'; chmod +x README.md")
    await said(seat, f"git add -A && {ME} commit -q -m box && git log --oneline && git blame README.md")
    assert await said(seat, "git status --porcelain") == ""
    changed = await asyncio.to_thread(look, site.tree())
    assert len(changed) == len(expected) + 1
    async with Gate(site.forge, str(origin), site.mirror) as gate:
        await asyncio.to_thread(push, site, gate.url)
    assert await asyncio.to_thread(lambda: look(clone(origin, "second", "box"))) == changed


def push(site: Site, url: str) -> None:
    """As the box would, with the mirror's objects where the host has them."""
    borrowed = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(site.mirror / "objects"), "GIT_LFS_SKIP_PUSH": "1"}
    git(site.tree(), "-c", "core.hooksPath=/dev/null", "push", "-q", url, "HEAD:refs/heads/box", more=borrowed)


async def test_git_works_in_a_box_as_if_it_had_cloned(site: Site) -> None:
    origin = await asyncio.to_thread(awkward.nested, site.origins)
    git(origin, "branch", "other")
    git(origin, "tag", "-a", "-m", "v1", "v1")
    seat, _ = await site.take(origin)
    assert (await said(seat, "git branch -a")).split("\n")[:-1] == [
        "* main", "  remotes/origin/HEAD -> origin/main", "  remotes/origin/main", "  remotes/origin/other",
    ]  # fmt: skip
    assert await said(seat, "git describe") == "v1\n"
    status = await said(seat, "git submodule status --recursive")
    assert [line[0] for line in status.splitlines()] == [" ", " ", " "]
    assert "third/middle/in side" in status
    await said(seat, "git submodule update --init --recursive && git submodule foreach --recursive git status")
    await said(seat, "git -C third/middle log --oneline && git -C 'third/middle/in side' fsck")
    await said(seat, f"echo a > a; git add a; {ME} stash -q; {ME} stash pop -q; {ME} commit -qm a")
    await said(seat, f"{ME} rebase -q --force-rebase HEAD~1; git worktree add -q ../two other && git -C ../two status")
    await said(seat, "git gc -q && git gc -q --prune=now && git repack -adq && git fsck --no-dangling 2>&1")
    assert await said(seat, "git status --porcelain; git log --oneline | wc -l") == "2\n"
    assert await said(seat, "cat 'third/middle/in side/deep'") == "deep\n"


async def test_an_origin_without_its_whole_history_comes_as_far_as_it_goes(site: Site) -> None:
    tree = awkward.start(site.origins, "short")
    for number in range(4):
        awkward.put(tree, f"file-{number}")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", str(number))
    origin = site.origins / "short.git"
    git(site.origins, "clone", "-q", "--bare", "--depth=2", tree.as_uri(), str(origin))
    seat, lacks = await site.take(origin)
    assert lacks == ()
    assert (
        await said(seat, "git log --format=%s; git status --porcelain; git fsck --no-dangling 2>/dev/null") == "3\n2\n"
    )


@pytest.mark.needs("git-lfs")
async def test_lfs_files_are_there_and_git_lfs_works_without_a_network(site: Site) -> None:
    origin = await asyncio.to_thread(awkward.large, site.origins)
    seat, _ = await site.take(origin)
    listed = await said(seat, "git lfs ls-files")
    assert [line.split()[1] for line in listed.splitlines() if line] == ["*", "*", "*"]
    assert "Git LFS fsck OK" in await said(seat, "git lfs fsck 2>&1")
    await said(seat, "rm a.psd && git checkout a.psd && test $(wc -c < a.psd) = 800000 && git lfs status")
    await said(seat, f"echo new > b.psd && git add b.psd && {ME} commit -qm b && git lfs ls-files | grep b.psd")
    assert await said(seat, "git status --porcelain; git show HEAD:b.psd | head -1") == (
        "version https://git-lfs.github.com/spec/v1\n"
    )


@pytest.mark.needs("git-lfs")
async def test_lfs_files_that_the_origin_has_not_are_told(site: Site) -> None:
    origin = await asyncio.to_thread(awkward.large, site.origins)
    shutil.rmtree(origin / "lfs")
    seat, lacks = await site.take(origin)
    assert len(lacks) == 1
    assert lacks[0].startswith(
        "LFS files are pointers, not their content: *.psd, assets/*. 2 of 2 could not be fetched"
    )
    assert await said(seat, "git status --porcelain; head -1 a.psd") == "version https://git-lfs.github.com/spec/v1\n"


@pytest.mark.needs("git-lfs")
async def test_without_git_lfs_the_command_that_installs_it_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    origin = await asyncio.to_thread(awkward.large, site.origins)
    for name in ("git", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tmp_path))
    heads = await site.forge.fetch(str(origin), site.mirror)
    gathered = await site.forge.gather(str(origin), site.mirror, heads["main"])
    assert gathered.lacks == (
        "LFS files are pointers, not their content: *.psd, assets/*. This host has no git-lfs: `apt install git-lfs`.",
    )


async def test_what_was_lacking_comes_when_it_is_gathered_again(site: Site) -> None:
    origin = await asyncio.to_thread(awkward.nested, site.origins)
    inner = site.origins / "inner.git"
    inner.rename(inner.with_suffix(".away"))
    heads = await site.forge.fetch(str(origin), site.mirror)
    first = await site.forge.gather(str(origin), site.mirror, heads["main"])
    assert [lack.partition(": ")[2].partition(":")[0] for lack in first.lacks] == ["second", "third/middle/in side"]
    inner.with_suffix(".away").rename(inner)
    assert (await site.forge.gather(str(origin), site.mirror, heads["main"])).lacks == ()
