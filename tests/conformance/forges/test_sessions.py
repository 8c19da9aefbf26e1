"""A box's git against a forge's sessions: the local one, and the same asked through the keeper."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conformance.forges.conftest import EMPTY, NONE, LocalKit, drained, made_local
from tests.conformance.forges.gate import Gate, client
from tests.conformance.keeper.keeping import Keeper

from keel.testing import eventually
from rift.drivers.forge.packets import FLUSH, packet
from rift.drivers.forge.protocol import ForgeError
from rift.drivers.forge.remote import RemoteForge
from rift.keeper.checks import Bounds


@pytest.fixture(params=["local", "remote"])
async def kit(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[LocalKit]:
    """A repository with one commit, mirrored in a data folder."""
    kit = LocalKit(home)
    kit.forge = made_local()
    (home / "data").mkdir()
    kit.mirror = home / "data" / "mirrors" / "app"
    kit.commit("main")
    if request.param == "local":
        yield kit
        return
    keeper = Keeper(Bounds(home / "data", ""), {"forge": kit.forge})
    kit.forge = RemoteForge(await keeper.open())
    yield kit
    await keeper.close()


@pytest.fixture
async def gate(kit: LocalKit) -> AsyncIterator[Gate]:
    async with Gate(kit.forge, kit.url, kit.mirror) as one:
        yield one
        await eventually(lambda: not one.sessions, within=20)
    left = [path.name for path in kit.mirror.parent.iterdir() if path.name != kit.mirror.name]
    assert left == []


@pytest.fixture
async def box(gate: Gate, home: Path) -> Path:
    """A clone through the gate."""
    await client("clone", "-q", gate.url, "box", folder=home)
    return home / "box"


async def write(box: Path, name: str, text: str) -> str:
    """Commit a file; the commit's name."""
    (box / name).write_text(text)
    await client("add", "--", name, folder=box)
    await client("commit", "-q", "-m", name, folder=box)
    return (await client("rev-parse", "HEAD", folder=box)).strip()


async def test_a_box_fetches_what_the_origin_has_at_that_moment(kit: LocalKit, gate: Gate, box: Path) -> None:
    commit = kit.commit("side")
    kit.git(kit.source, "tag", "v1", commit)
    for version in ("0", "1", "2"):
        await client("-c", f"protocol.version={version}", "fetch", "-q", folder=box)
        assert (await client("rev-parse", "origin/side", folder=box)).strip() == commit
        commit = kit.commit("side")
    assert (await client("tag", folder=box)).split() == ["v1"]


async def test_only_heads_and_tags_are_shown(kit: LocalKit, gate: Gate) -> None:
    commit = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    await kit.forge.pin(kit.mirror, "b-1", commit)
    for version in ("0", "2"):
        told = await client("-c", f"protocol.version={version}", "ls-remote", gate.url, folder=kit.mirror.parent)
        assert "refs/heads/main" in told
        assert "refs/rift" not in told


async def test_a_push_moves_makes_and_removes_branches_and_tags_of_the_origin(
    kit: LocalKit, gate: Gate, box: Path
) -> None:
    first = await write(box, "a", "1")
    await client("push", "origin", "HEAD:main", "HEAD:new/branch", folder=box)
    await client("tag", "-a", "-m", "x", "v1", folder=box)
    second = await write(box, "a", "2")
    told = await client("push", "origin", "HEAD:main", ":new/branch", "v1", folder=box)
    assert "[deleted]" in told
    assert "[new tag]" in told
    assert kit.git(kit.source, "rev-parse", "main") == second
    assert kit.git(kit.source, "rev-parse", "v1^{commit}") == first
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main", "refs/tags/v1"]
    await client("push", "origin", f"{first}:refs/heads/old", folder=box)  # a pack in which there is nothing
    assert kit.git(kit.source, "rev-parse", "old") == first
    assert await kit.forge.fetch(kit.url, kit.mirror) == {"main": second, "old": first}


async def test_a_push_that_would_drop_commits_needs_force_and_then_does_it(
    kit: LocalKit, gate: Gate, box: Path
) -> None:
    await write(box, "a", "1")
    await client("push", "-q", "origin", "HEAD:main", folder=box)
    await client("commit", "--amend", "-q", "-m", "other", folder=box)
    assert "non-fast-forward" in await client("push", "origin", "HEAD:main", folder=box, fails=True)
    await client("push", "-q", "--force", "origin", "HEAD:main", folder=box)
    kit.git(kit.source, "config", "receive.denyNonFastForwards", "true")
    await client("commit", "--amend", "-q", "-m", "another", folder=box)
    told = await client("push", "--force", "origin", "HEAD:main", folder=box, fails=True)
    assert "! [remote rejected] HEAD -> main (non-fast-forward)" in told
    assert "remote: refs/heads/main: the origin takes no push that drops commits" in told


async def test_a_branch_that_moved_between_is_not_overwritten(kit: LocalKit, gate: Gate, box: Path) -> None:
    """The client has listed the branches, and somebody else is quicker with their push."""
    seen = kit.git(kit.source, "rev-parse", "main")
    commit = await write(box, "a", "1")
    moved = kit.commit("main")
    pack = await asyncio.to_thread(packed, box, commit, seen)
    session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
    line = packet(f"{seen} {commit} refs/heads/main\0report-status side-band-64k".encode())
    await kit.forge.feed(session, line + FLUSH + pack, last=True)
    told = await drained(kit, session)
    assert b"ng refs/heads/main stale info" in told
    assert b"it moved since you fetched: `git fetch`" in told
    assert kit.git(kit.source, "rev-parse", "main") == moved


async def test_all_or_nothing_where_the_client_wants_that(kit: LocalKit, gate: Gate, box: Path) -> None:
    hook(kit, "update", 'test "$1" != refs/heads/no')
    await write(box, "a", "1")
    told = await client("push", "--atomic", "origin", "HEAD:yes", "HEAD:no", folder=box, fails=True)
    assert "HEAD -> no (hook declined)" in told
    assert "HEAD -> yes (" in told
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname:short)") == "main"
    told = await client("push", "origin", "HEAD:yes", "HEAD:no", folder=box, fails=True)
    assert "[new branch]" in told
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname:short)").split() == ["main", "yes"]


async def test_what_the_origin_says_is_read_by_whoever_pushes(kit: LocalKit, gate: Gate, box: Path) -> None:
    hook(kit, "pre-receive", "echo 'open a pull request: https://forge.test/new' >&2; echo second >&2")
    await write(box, "a", "1")
    told = await client("push", "origin", "HEAD:topic", folder=box)
    assert "remote: open a pull request: https://forge.test/new" in told
    assert "remote: second" in told
    hook(kit, "pre-receive", "echo 'GH006: protected' >&2; false")
    await write(box, "a", "2")
    told = await client("push", "origin", "HEAD:topic", folder=box, fails=True)
    assert "remote: GH006: protected" in told
    assert "(pre-receive hook declined)" in told


async def test_a_branch_that_the_origin_has_checked_out_is_told_with_the_mend(
    kit: LocalKit, gate: Gate, box: Path
) -> None:
    kit.git(kit.source, "config", "core.bare", "false")
    await write(box, "a", "1")
    told = await client("push", "origin", "HEAD:main", folder=box, fails=True)
    assert "(branch is currently checked out)" in told
    assert "receive.denyCurrentBranch updateInstead" in told


async def test_an_origin_that_is_gone_is_told(kit: LocalKit, gate: Gate, box: Path) -> None:
    await write(box, "a", "1")
    kit.remove()
    for words in (["push", "origin", "HEAD:x"], ["fetch"]):
        assert "502" in await client(*words, folder=box, fails=True)


async def test_a_broken_pack_is_refused_and_leaves_nothing(kit: LocalKit, gate: Gate, box: Path) -> None:
    seen = kit.git(kit.source, "rev-parse", "main")
    commit = await write(box, "a", "1")
    pack = await asyncio.to_thread(packed, box, commit, seen)
    line = packet(f"{seen} {commit} refs/heads/main\0report-status".encode())
    for broken in (
        b"PACK\0\0\0\2\0\0\0\7rubbish",
        bytes(pack[:-30]),
        bytes(pack[:30]) + b"\xff" + bytes(pack[31:]),
        b"",
    ):
        session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
        await kit.forge.feed(session, line + FLUSH + broken, last=True)
        told = await drained(kit, session)
        assert b"unpack the pack was not taken" in told
        assert b"ng refs/heads/main unpacker error" in told
    assert kit.git(kit.source, "rev-parse", "main") == seen
    assert not await asyncio.to_thread(kit.has, commit)


async def test_objects_that_no_repository_may_have_are_refused(kit: LocalKit, gate: Gate, box: Path) -> None:
    """A tree with an entry `.git`: git that is told to looks for that, and does not unpack it."""
    blob = (await client("hash-object", "-w", "/dev/null", folder=box)).strip()
    (box / "tree").write_bytes(b"100644 .git\0" + bytes.fromhex(blob))
    tree = (await client("hash-object", "-t", "tree", "-w", "--literally", "tree", folder=box)).strip()
    commit = (await client("commit-tree", "-m", "x", tree, folder=box)).strip()
    told = await client("push", "origin", f"{commit}:refs/heads/bad", folder=box, fails=True)
    assert "hasDotgit" in told
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize(
    "line",
    [
        f"{NONE} {'1' * 40} refs/rift/boxes/b-1",
        f"{NONE} {'1' * 40} HEAD",
        f"{NONE} {'1' * 40} refs/heads/../../config",
        f"{NONE} {'1' * 40} refs/heads/a b",
        f"{NONE} {'1' * 40} refs/heads/x.lock",
        f"{NONE} {'1' * 40} --upload-pack=x",
        f"{NONE} {'1' * 39} refs/heads/x",
        f"shallow {'1' * 39}",
        "rubbish",
    ],
)
async def test_a_push_of_anything_but_branches_and_tags_is_not_begun(kit: LocalKit, gate: Gate, line: str) -> None:
    session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
    await kit.forge.feed(session, packet(line.encode() + b"\0report-status") + FLUSH, last=True)
    assert b"ERR this push cannot be read: " in await drained(kit, session)


async def test_a_checkout_without_its_whole_history_pushes_where_the_origin_has_the_rest(
    kit: LocalKit, gate: Gate, box: Path
) -> None:
    for number in range(3):
        await write(box, f"a{number}", "1")
    await client("push", "-q", "origin", "HEAD:main", folder=box)
    await client("clone", "-q", "--depth=1", gate.url, "short", folder=box.parent)
    short = box.parent / "short"
    commit = await write(short, "b", "1")
    await client("push", "-q", "origin", "HEAD:topic", folder=short)
    assert kit.git(kit.source, "rev-parse", "topic") == commit
    assert kit.git(kit.source, "rev-list", "--count", "topic") == "5"


async def test_an_origin_without_its_whole_history_takes_pushes_too(home: Path) -> None:
    """No fetch can make such a checkout whole."""
    kit = LocalKit(home)
    kit.forge = made_local()
    whole, short = home / "whole", home / "short.git"
    await client("init", "-q", "-b", "main", "whole", folder=home)
    for number in range(4):
        await write(whole, f"w{number}", "1")
    kit.git(home, "clone", "-q", "--bare", "--depth=2", whole.as_uri(), str(short))
    async with Gate(kit.forge, str(short), kit.mirror) as gate:
        await client("clone", "-q", gate.url, "box", folder=home)
        commit = await write(home / "box", "a", "1")
        await client("push", "-q", "origin", "HEAD:topic", "HEAD:main", folder=home / "box")
        assert kit.git(short, "rev-parse", "topic", "main").split() == [commit, commit]
        assert kit.git(short, "rev-list", "--count", "topic") == "3"
        assert await kit.forge.fetch(str(short), kit.mirror) == {"main": commit, "topic": commit}


async def test_what_leans_on_history_that_nobody_here_has_is_told_with_the_mend(
    kit: LocalKit, gate: Gate, box: Path
) -> None:
    """A checkout that took a part of another repository's history, which the origin has not."""
    other = box.parent / "other"
    await client("init", "-q", "-b", "main", "other", folder=box.parent)
    for number in range(3):
        await write(other, f"o{number}", "1")
    await client("fetch", "-q", "--depth=1", other.as_uri(), "main", folder=box)
    told = await client("push", "origin", "FETCH_HEAD:refs/heads/x", folder=box, fails=True)
    assert "unpacker error" in told
    assert "remote: a commit of this push leans on history that neither it nor the origin has" in told
    assert "`git fetch --unshallow` from where that history came, and push again" in told
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname:short)") == "main"
    await client("fetch", "-q", "--unshallow", other.as_uri(), "main", folder=box)
    await client("push", "-q", "origin", "FETCH_HEAD:refs/heads/x", folder=box)
    assert kit.git(kit.source, "rev-list", "--count", "x") == "3"


async def test_a_checkout_whose_history_ends_in_many_places_pushes_too(kit: LocalKit, gate: Gate) -> None:
    """Git tells each of them before the refs: they are no refs of the push."""
    seen = kit.git(kit.source, "rev-parse", "main")
    session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
    shallow = b"".join(packet(f"shallow {number:040x}".encode()) for number in range(3000))
    line = packet(f"{NONE} {seen} refs/heads/x\0report-status".encode())
    await kit.forge.feed(session, shallow + line + FLUSH + EMPTY, last=True)
    assert b"ok refs/heads/x" in await drained(kit, session)
    session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
    for _ in range(25):
        await kit.forge.feed(session, shallow, last=False)
    assert b"ERR this push cannot be read: it asks for too much at once" in await drained(kit, session)


async def test_what_is_no_request_ends_the_session(kit: LocalKit, gate: Gate) -> None:
    session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
    await kit.forge.feed(session, b"GET / HTTP/1.1\r\n", last=False)
    assert b"not made of git's packets" in await drained(kit, session)
    session = await kit.forge.open(kit.mirror, kit.url, "upload-pack", "rpc")
    await kit.forge.feed(session, b"GET / HTTP/1.1\r\n", last=True)
    with pytest.raises(ForgeError, match="bad line length"):
        await drained(kit, session)


async def test_what_a_killed_server_left_of_a_push_is_swept_by_the_next(kit: LocalKit, gate: Gate, box: Path) -> None:
    left = kit.mirror.parent / ".push-0123456789abcdef"
    (left / "objects" / "pack").mkdir(parents=True)
    left.with_name(f"{left.name}.lock").touch()
    await write(box, "a", "1")
    await client("push", "-q", "origin", "HEAD:x", folder=box)
    assert not left.exists()


def packed(box: Path, commit: str, seen: str) -> bytes:
    """The pack that a push of the commit would bring."""

    return subprocess.run(
        ["git", "-C", box, "pack-objects", "--revs", "--stdout", "-q"],
        input=f"{commit}\n^{seen}\n".encode(),
        capture_output=True,
        check=True,
    ).stdout


def hook(kit: LocalKit, name: str, script: str) -> None:
    """Have the origin run that."""
    path = kit.source / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    path.chmod(0o755)
