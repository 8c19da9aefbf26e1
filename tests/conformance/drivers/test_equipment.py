"""What a box has beside the base: packages, variables, and a setup that ran before it is up."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path

import pytest
from tests.conformance.drivers.kit import TOOL, Kit, LocalKit, RemoteKit, equipped
from tests.conformance.drivers.plane import Seat

from keel.testing import eventually
from rift.drivers.boxes.protocol import DriverError, StoreLost

BOX = "b-00000000000000000000000e"


async def up(kit: Kit, setup: str = "", incarnation: int = 1) -> Seat:
    seat = kit.plane.seat(BOX, incarnation)
    await kit.driver.start(equipped(kit, kit.spec(BOX, incarnation), setup))
    await seat.up()
    return seat


async def test_what_a_setup_made_is_there_for_every_command(kit: Kit) -> None:
    seat = await up(kit, kit.put("made.txt", "by the setup"))
    assert await seat.run("cat made.txt") == (0, "by the setup\n")


async def test_a_setup_runs_once_in_the_life_of_a_box(kit: Kit) -> None:
    await up(kit, kit.put("made.txt", "one"))
    await kit.driver.stop(BOX)
    seat = await up(kit, kit.put("made.txt", "two"), incarnation=2)
    assert await seat.run("cat made.txt") == (0, "one\n")


async def test_a_setup_that_fails_is_told_with_what_it_printed_and_the_box_is_not_up(kit: Kit) -> None:
    seat = kit.plane.seat(BOX, 1)
    await kit.driver.start(equipped(kit, kit.spec(BOX), "echo one\nexit 3"))
    await eventually(lambda: seat.events)
    assert [(event["type"], event["setup"], event["reason"]) for event in seat.events] == [
        ("failed", True, "the repository's setup failed with exit 3")
    ]
    assert base64.b64decode(seat.events[0]["output"]) == b"one\n"


async def test_a_setup_that_does_not_end_is_stopped(kit: Kit) -> None:
    seat = kit.plane.seat(BOX, 1)
    await kit.driver.start(equipped(kit, kit.spec(BOX), kit.wait_for("never"), seconds=1))
    await eventually(lambda: seat.events)
    assert seat.events[0]["reason"].startswith("the repository's setup did not end within 1 s")


async def test_packages_are_called_by_name_before_the_hosts_and_after_the_users_own(local: LocalKit) -> None:
    seat = await up(local, "tool > made.txt")
    assert await seat.run("cat made.txt; tool; git") == (0, "tool of app\n" * 3)
    own = "printf '#!/bin/sh\\necho mine\\n' > ~/.local/bin/tool; chmod +x ~/.local/bin/tool; tool"
    assert await seat.run(own) == (0, "mine\n")


async def test_variables_are_the_repositorys_and_those_that_rift_sets_win(local: LocalKit) -> None:
    seat = await up(local)
    code, said = await seat.run('echo "$HELLO"; echo $HOME; echo $PATH')
    assert code == 0
    assert said.startswith(f"two\nlines\n/home/dev\n/home/dev/.local/bin:{TOOL}/bin:/run/rift/bin:")


async def test_a_box_reads_its_own_store_alone_and_writes_to_none(local: LocalKit) -> None:
    seat = await up(local)
    code, said = await seat.run(
        f"ls {TOOL}/bin; touch /nix/store/x; touch {TOOL}/bin/tool; rm -rf {TOOL}; mv /nix/store /nix/moved; "
        f"mkdir /nix/own; ls {local.data}"
    )
    assert said.startswith("git\ntool\n")
    assert "secret" not in said
    assert said.count("Read-only file system") == 5
    assert code != 0
    assert (local.store() / "00000000000000000000000000000000-tool" / "bin" / "tool").exists()


async def test_a_box_without_a_flake_has_no_store(local: LocalKit) -> None:
    seat = local.plane.seat(BOX, 1)
    await local.driver.start(local.spec(BOX))
    await seat.up()
    assert await seat.run("test -e /nix && echo there; echo ${HELLO-unset}") == (0, "unset\n")


async def test_a_box_whose_packages_are_gone_says_so(local: LocalKit) -> None:
    spec = equipped(local, local.spec(BOX))
    assert spec.equipment
    lost = dataclasses.replace(spec.equipment, paths=(TOOL.replace("tool", "gone"),))
    with pytest.raises(StoreLost, match="gone from the host: there is no /nix/store/"):
        await local.driver.start(dataclasses.replace(spec, equipment=lost))


async def test_a_keeper_shows_no_other_folder_as_a_store(data: Path) -> None:
    kit = RemoteKit(data)
    await kit.open()
    try:
        spec = equipped(kit, kit.spec(BOX))
        assert spec.equipment
        other = kit.store().parents[1] / "other" / "store"
        for folder in (Path("/"), Path("/root"), other, kit.store() / ".." / ".." / "other" / "store"):
            wrong = dataclasses.replace(spec.equipment, store=folder)
            with pytest.raises(DriverError, match="refuses this spec"):
                await kit.driver.start(dataclasses.replace(spec, equipment=wrong))
    finally:
        await kit.close()
