"""The ten awkward repositories from real boxes by plain `git push`: byte for byte what the box had is at the origin."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.behaviour.repos.awkward import ALL, Seen, git, look, put, start
from tests.behaviour.stack import program
from tests.behaviour.stack.hands import Hands

from rift import app
from rift.origins import actions as origins
from rift.settings import RiftSettings

WORK = (
    "set -e; git config user.email dev@example.org; git config user.name Dev; git switch -qc box;"
    " echo more >> README.md; mkdir -p 'od d'; echo new > 'od d/ne\nw'; chmod +x README.md;"
    " git add -A; git commit -qm box; git push -q -u origin HEAD; git fetch -q;"
    " test $(git rev-parse HEAD) = $(git rev-parse origin/box); git status --porcelain"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where origins stand: not in the data folder, below which none is read."""
    made = Path(tempfile.mkdtemp(prefix="rift-origins-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@asynccontextmanager
async def taken(hands: Hands, name: str, origin: Path) -> AsyncIterator[Path]:
    """The checkout in a box of an origin that Rift has not heard of before."""
    full = f"acme/{name}"
    async with app.connect(RiftSettings(), hands.stack.data, hands.stack.database.runtime) as deps:
        program.done(await origins.add_repo(deps, program.ADA, full, str(origin)))
    watched = await hands.call("rift_watch", repo=full, ref="main", warm=0)
    assert watched.refused is None, watched.text
    try:
        await hands.take(repo=full)
        yield hands.stack.data / "boxes" / hands.vm / "home" / name
    finally:
        await hands.call("rift_unwatch", repo=full, ref="main")


async def worked(hands: Hands, command: str) -> str:
    """What a command prints that ends well."""
    said = await hands.run(command, 300)
    assert said["exit"] == 0, said["output"]
    output: str = said["output"]
    return output


def cloned(origin: Path, branch: str) -> Seen:
    """What anybody would have of the origin."""
    tree = origin.parent / f"{origin.stem}.{branch}"
    git(origin.parent, "clone", "-q", "--recurse-submodules", "-b", branch, str(origin), str(tree))
    return look(tree)


@pytest.mark.parametrize("kind", ALL)
async def test_a_repository_comes_to_a_box_and_its_push_to_the_origin_as_they_are(
    hands: Hands, folder: Path, needs: Callable[[str], None], kind: str
) -> None:
    if kind == "large":
        needs("git-lfs")
    origin = await asyncio.to_thread(ALL[kind], folder)
    async with taken(hands, kind, origin) as tree:
        expected = await asyncio.to_thread(cloned, origin, "main")
        assert await asyncio.to_thread(look, tree) == expected
        assert await worked(hands, WORK) == ""
        changed = await asyncio.to_thread(look, tree)
    assert len(changed) == len(expected) + 1
    assert await asyncio.to_thread(cloned, origin, "box") == changed
    git(origin, "fsck", "--connectivity-only")


async def test_a_box_of_an_origin_without_its_whole_history_pushes_plainly(hands: Hands, folder: Path) -> None:
    tree = start(folder, "whole")
    for number in range(4):
        put(tree, f"file-{number}")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", str(number))
    origin = folder / "short.git"
    git(folder, "clone", "-q", "--bare", "--depth=2", tree.as_uri(), str(origin))
    async with taken(hands, "short", origin):
        assert await worked(hands, WORK) == ""
    assert git(origin, "log", "--format=%s", "box") == "box\n3\n2"
