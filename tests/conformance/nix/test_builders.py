"""What every builder does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conformance.nix.conftest import Kit

from keel import db
from keel.testing import eventually
from rift.drivers.nix.protocol import BuildError, LogPiece

BUILD = "e-1"
OTHER = "e-2"


async def test_a_flake_comes_to_its_packages_variables_and_setup(kit: Kit) -> None:
    built = await kit.builder.build(BUILD, kit.repo, kit.mirror, kit.good())
    assert built is not None
    assert [path.startswith("/nix/store/") for path in built.paths] == [True]
    assert built.env == (("HELLO", "world"),)
    assert built.setup == "echo set up\n"


async def test_a_repository_without_a_flake_has_the_base(kit: Kit) -> None:
    assert await kit.builder.build(BUILD, kit.repo, kit.mirror, kit.bare()) is None


async def test_a_failure_is_told_with_what_was_said(kit: Kit) -> None:
    with pytest.raises(BuildError, match="no such luck"):
        await kit.builder.build(BUILD, kit.repo, kit.mirror, kit.broken())


async def test_the_log_is_read_by_offset_and_says_that_the_build_has_ended(kit: Kit) -> None:
    await kit.builder.build(BUILD, kit.repo, kit.mirror, kit.good())
    whole = await kit.builder.log(BUILD, 0)
    assert b"made it\n" in whole.data
    assert not whole.running
    assert await kit.builder.log(BUILD, len(whole.data) - 3) == LogPiece(whole.data[-3:], running=False)
    assert await kit.builder.log(BUILD, len(whole.data) + 9) == LogPiece(b"", running=False)


async def test_the_log_of_a_build_that_is_unknown_is_empty(kit: Kit) -> None:
    assert await kit.builder.log("e-unknown", 0) == LogPiece(b"", running=False)


async def test_a_cancelled_build_ends_and_the_next_one_is_built(kit: Kit) -> None:
    building = asyncio.create_task(kit.builder.build(BUILD, kit.repo, kit.mirror, kit.endless()))
    await eventually(lambda: _runs(kit), within=60)
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    await eventually(lambda: _ended(kit), within=60)
    assert await kit.builder.build(OTHER, kit.repo, kit.mirror, kit.good()) is not None


async def _runs(kit: Kit) -> bool:
    return (await kit.builder.log(BUILD, 0)).running


async def _ended(kit: Kit) -> bool:
    return not await _runs(kit)


async def test_what_is_not_kept_goes_and_what_is_kept_stays(kit: Kit) -> None:
    commit = kit.good()
    for build in (OTHER, BUILD):  # the first one has something to say, the second finds all of it built
        await kit.builder.build(build, kit.repo, kit.mirror, commit)
    await kit.builder.keep(kit.repo, (OTHER,))
    assert await kit.builder.log(BUILD, 0) == LogPiece(b"", running=False)
    assert (await kit.builder.log(OTHER, 0)).data
    await kit.builder.forget(kit.repo)
    assert await kit.builder.log(OTHER, 0) == LogPiece(b"", running=False)
    await kit.builder.forget(kit.repo)


async def test_nothing_is_kept_of_a_repository_that_was_never_built(kit: Kit) -> None:
    await kit.builder.keep("r-unknown", (BUILD,))
    await kit.builder.forget("r-unknown")


async def test_builders_refuse_to_work_inside_a_transaction(kit: Kit) -> None:
    inside = db._inside.set(True)
    try:
        for call in (
            kit.builder.lacking(),
            kit.builder.build(BUILD, kit.repo, Path("/x"), "0" * 40),
            kit.builder.log(BUILD, 0),
            kit.builder.keep(kit.repo, ()),
            kit.builder.forget(kit.repo),
        ):
            with pytest.raises(RuntimeError, match="transaction"):
                await call
    finally:
        db._inside.reset(inside)
