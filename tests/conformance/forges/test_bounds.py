"""What one box, one repository and all of them together may take of the local forge's sessions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.conformance.forges.conftest import EMPTY, NONE, LocalKit, drained, made_local
from tests.conformance.forges.gate import Gate, client

from keel.sizes import MIB
from keel.testing import eventually
from rift.drivers.forge.local.sessions import Sessions
from rift.drivers.forge.packets import FLUSH, packet
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
