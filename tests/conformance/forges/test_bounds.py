"""What one box, one repository and all of them together may take of the local forge's sessions."""

from __future__ import annotations

import dataclasses
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conformance.forges.conftest import EMPTY, NONE, LocalKit, drained, made_local
from tests.conformance.forges.gate import Gate, client

from keel.ids import SystemIds
from keel.sizes import MIB
from keel.testing import eventually
from rift.drivers.forge.local.driver import PUSH_LIMIT
from rift.drivers.forge.local.git import Floor, Ran
from rift.drivers.forge.local.quarantine import Quarantine
from rift.drivers.forge.local.receiving import Receiving
from rift.drivers.forge.local.sessions import Sessions
from rift.drivers.forge.packets import FLUSH, Push, packet
from rift.drivers.forge.protocol import FEED_BYTES, ForgeError


async def test_what_comes_after_a_pack_of_nothing_is_not_kept(home: Path) -> None:
    """Its first bytes say that no objects follow: whatever does is no pack, and there may be gigabytes of it."""
    kit = LocalKit(home)
    kit.forge = made_local()
    seen = kit.commit("main")
    session = await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc")
    line = packet(f"{NONE} {seen} refs/heads/x\0report-status".encode())
    await kit.forge.feed(session, line + FLUSH + EMPTY[:20], last=False)
    await kit.forge.feed(session, bytes(FEED_BYTES), last=False)
    assert b"its pack says that nothing is in it, and goes on" in await drained(kit, session)
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname:short)") == "main"


async def test_a_push_beyond_the_bound_is_refused(home: Path) -> None:
    kit = LocalKit(home)
    kit.forge = made_local(push_limit=1 * MIB)
    kit.commit("main")
    async with Gate(kit.forge, kit.url, kit.mirror) as gate:
        await client("clone", "-q", gate.url, "box", folder=home)
        (home / "box" / "big").write_bytes(os.urandom(3 * MIB))
        await client("add", "big", folder=home / "box")
        await client("commit", "-q", "-m", "big", folder=home / "box")
        told = await client("push", "origin", "HEAD:big", folder=home / "box", fails=True)
        assert "pack exceeds maximum allowed size" in told
    assert kit.git(kit.source, "for-each-ref", "--format=%(refname:short)") == "main"


async def test_so_many_sessions_are_open_at_once_and_a_quiet_one_ends(home: Path) -> None:
    kit = LocalKit(home)
    kit.forge = made_local(sessions=Sessions(most=4, idle_seconds=5.0))
    kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    names = {kit.mirror.name, "second", "third"}
    for other in names - {kit.mirror.name}:
        shutil.copytree(kit.mirror, kit.mirror.with_name(other))
    kept = [await kit.forge.open(kit.mirror, kit.url, "upload-pack", "rpc")]
    kept.append(await kit.forge.open(kit.mirror, kit.url, "receive-pack", "rpc"))
    line = packet(f"{NONE} {'1' * 40} refs/heads/x\0report-status".encode())
    await kit.forge.feed(kept[1], line + FLUSH + b"PACK\0\0\0\2\0\0\0\7", last=False)  # git waits for more of it
    with pytest.raises(ForgeError, match="2 fetches and pushes of this repository's boxes run already"):
        await kit.forge.open(kit.mirror, kit.url, "upload-pack", "rpc")
    # They find a place, whatever the boxes of the first one do.
    others = [
        await kit.forge.open(kit.mirror.with_name(one), kit.url, "upload-pack", "rpc") for one in sorted(names)[1:]
    ]
    with pytest.raises(ForgeError, match="4 fetches and pushes of boxes run already"):
        await kit.forge.open(kit.mirror.with_name("fourth"), kit.url, "upload-pack", "rpc")
    for session in others:
        await kit.forge.close(session)
    await eventually(lambda: {path.name for path in kit.mirror.parent.iterdir()} == names, within=20)
    for session in kept:
        with pytest.raises(ForgeError, match="no such session"):
            await kit.forge.drain(session)
    await kit.forge.close(await kit.forge.open(kit.mirror, kit.url, "upload-pack", "rpc"))


async def test_pushes_that_fit_alone_do_not_take_the_last_of_the_disk_together(home: Path) -> None:
    """When it began there was room for it; while it comes, others take that."""
    kit = LocalKit(home)
    seen = kit.commit("main")
    await kit.forge.fetch(kit.url, kit.mirror)
    room = await Quarantine(None, PUSH_LIMIT, 0, SystemIds()).room(kit.mirror)
    full = dataclasses.replace(room, floor=Floor(room.folder, 1 << 62))  # more than any disk has
    push = Receiving(kit.mirror, full, None, unhanded)
    line = packet(f"{NONE} {seen} refs/heads/x\0report-status".encode())
    await push.feed(line + FLUSH + b"PACK\0\0\0\2\0\0\0\7", last=False)  # git waits for more of it
    git = await eventually(lambda: unpacker(kit.mirror))
    await eventually(lambda: not Path(f"/proc/{git}").exists(), within=20)
    await push.feed(b"x", last=True)
    told = await push.drain() or b""
    assert b"unpack the pack was not taken: this host has no room for what it sends: its disk is full" in told
    await push.close()
    assert not room.folder.exists()


async def unhanded(asked: Push, folder: Path) -> Ran:
    """Nothing is handed on."""
    raise AssertionError(asked)


def unpacker(mirror: Path) -> str | None:
    """The pid of the git that unpacks what is pushed."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"index-pack" in words and f"--git-dir={mirror}".encode() in words:
                return path.parent.name
    return None
