"""Builds that take more than they may, that are ended, or whose keeper is; and a user's builds."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

import pytest
from tests.conformance.nix.attacks import BUILD, SYSTEM_PYTHON, in_jails, package, python, reason, run
from tests.conformance.nix.conftest import LocalKit

from keel.sizes import MIB
from keel.testing import eventually
from rift.drivers.nix.local import LocalBuilder

pytestmark = SYSTEM_PYTHON


async def test_a_fork_bomb_meets_its_limit_and_goes(local: LocalKit) -> None:
    local.builder = LocalBuilder(dataclasses.replace(local.config, processes=96, build_seconds=60.0))
    said = await run(
        local,
        """
        import os, sys, time
        made = 0
        try:
            while made < 2000:
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(1000)
                made += 1
        except OSError:
            print("bounded at", made, made < 96)
        """,
    )
    assert "True" in said, said
    assert in_jails(local) == []


async def test_a_builder_that_takes_too_much_memory_is_killed_alone(local: LocalKit) -> None:
    local.builder = LocalBuilder(dataclasses.replace(local.config, memory=256 * MIB))
    said = await run(
        local,
        """
        hoard = []
        try:
            while len(hoard) < 1024:
                hoard.append(bytearray(b"x" * (1 << 20)))
            print("LEAK", len(hoard))
        except MemoryError:
            print("refused")
        """,
    )
    assert "LEAK" not in said
    assert in_jails(local) == []


async def test_a_builder_that_fills_the_disk_is_ended_and_says_so(local: LocalKit) -> None:
    local.builder = LocalBuilder(dataclasses.replace(local.config, disk=64 * MIB))
    script = "mkdir $out; n=0; while :; do n=$((n+1)); dd if=/dev/zero of=$out/$n bs=1M count=4 2>/dev/null; done"
    text = await reason(local, package(script))
    assert "takes more than its limit, 64 MiB (Rift:Environments:Disk)." in text
    used = sum(path.lstat().st_size for path in (local.data / "nix").rglob("*"))
    assert used < 2048 * MIB


async def test_a_cancelled_build_leaves_no_process_whatever_it_started(local: LocalKit) -> None:
    program = """
    import os, time
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
    print("begun", flush=True)
    time.sleep(1000)
    """
    commit = local.origin.commit({"flake.nix": python(program), "attack.py": textwrap.dedent(program)})
    building = asyncio.create_task(local.builder.build(BUILD, local.repo, local.mirror, commit))
    await eventually(lambda: _begun(local), within=60)
    assert len(in_jails(local)) > 3
    if local.as_root:
        uids = {os.stat(f"/proc/{pid}").st_uid for pid in in_jails(local)}
        assert 0 not in uids
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert in_jails(local) == []
    assert await local.builder.build("e-2", local.repo, local.mirror, local.good()) is not None


async def _begun(kit: LocalKit) -> bool:
    return b"begun" in (await kit.builder.log(BUILD, 0)).data


KEEPER = """
import asyncio, sys
from pathlib import Path
from rift.drivers.boxes.local import LocalConfig
from rift.drivers.nix.local import LocalBuilder, NixConfig
data, mirror, commit = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
print(asyncio.run(LocalBuilder(NixConfig(LocalConfig(data))).build("e-1", "r-1", mirror, commit)))
"""


async def test_a_keeper_that_is_killed_leaves_nothing_running_and_nothing_broken(local: LocalKit) -> None:
    """At any moment of a build: while the source is laid out, evaluated, built."""
    commit = local.endless()
    for moment in ("work", "store", "begun"):
        keeper = subprocess.Popen([sys.executable, "-c", KEEPER, local.data, local.mirror, commit])
        try:
            await eventually(partial(_reached, local, moment), within=60)
        finally:
            keeper.send_signal(signal.SIGKILL)
            keeper.wait()
        await eventually(lambda: in_jails(local) == [], within=20)
        await eventually(partial(_over, local), within=20)  # a child that it was just making has the lock for a moment
    made = await local.builder.build(BUILD, local.repo, local.mirror, local.good())
    assert made is not None


async def _over(kit: LocalKit) -> bool:
    return not (await kit.builder.log(BUILD, 0)).running


async def _reached(kit: LocalKit, moment: str) -> bool:
    place = kit.data / "nix" / kit.repo
    if moment == "begun":
        return await _begun(kit)
    with suppress(FileNotFoundError):
        return (place / "work" / "tmp").exists() if moment == "work" else any((place / "store").iterdir())
    return False


@pytest.fixture
async def as_user(local: LocalKit) -> AsyncIterator[LocalKit]:
    """The same, for somebody who is not root."""
    if not local.as_root:
        pytest.skip("the whole suite runs as a user already")
    yield local
    subprocess.run(["rm", "-rf", local.data.parent / "theirs"], check=True)


async def test_a_user_builds_too_and_owns_all_of_it(as_user: LocalKit) -> None:
    theirs = as_user.data.parent / "theirs"
    theirs.mkdir()
    commit = as_user.good()
    subprocess.run(["cp", "-r", as_user.mirror, theirs / "mirror"], check=True)
    subprocess.run(["chown", "-R", "12345:12345", theirs], check=True)
    done = subprocess.run(
        [
            "setpriv",
            "--reuid=12345",
            "--regid=12345",
            "--clear-groups",
            sys.executable,
            "-c",
            KEEPER,
            theirs / "data",
            theirs / "mirror",
            commit,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(theirs), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert "HELLO" in done.stdout, done.stderr
    store = theirs / "data" / "nix" / "r-1" / "store"
    assert store.stat().st_uid == 12345
    assert any(path.name.endswith("-tool") for path in store.iterdir())
