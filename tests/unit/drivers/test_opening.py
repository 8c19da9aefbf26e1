"""What a host lacks for an open network, and the command for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rift.drivers.boxes.local import opening
from rift.drivers.boxes.local.mounts import etc_files
from rift.drivers.boxes.local.opening import Lack, Opening
from rift.drivers.boxes.protocol import DriverError


def place(folder: Path, *programs: str) -> str:
    for program in programs:
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    return str(folder)


@pytest.fixture
def tun(tmp_path: Path) -> Path:
    path = tmp_path / "tun"
    path.touch()
    path.chmod(0o666)
    return path


@pytest.mark.parametrize(
    ("there", "what", "mend"),
    [
        ((), "there is no pasta and no nft", "sudo apt install passt nftables"),
        (("nft",), "there is no pasta", "sudo apt install passt"),
        (("pasta",), "there is no nft", "sudo apt install nftables"),
    ],
)
def test_a_missing_program_is_named_with_its_package(
    tmp_path: Path, tun: Path, there: tuple[str, ...], what: str, mend: str
) -> None:
    assert opening.find_opening(place(tmp_path, *there), tun) == Lack(what, mend)


def test_a_host_with_both_programs_and_the_device_lacks_nothing(tmp_path: Path, tun: Path) -> None:
    places = place(tmp_path, "pasta", "nft")
    assert opening.find_opening(places, tun) == Opening(f"{tmp_path}/pasta", f"{tmp_path}/nft")
    assert opening.need_opening(places, tun) == Opening(f"{tmp_path}/pasta", f"{tmp_path}/nft")


def test_a_missing_device_and_one_that_boxes_may_not_open_are_told_apart(tmp_path: Path, tun: Path) -> None:
    places = place(tmp_path, "pasta", "nft")
    assert opening.find_opening(places, tmp_path / "none") == Lack(f"there is no {tmp_path}/none", "sudo modprobe tun")
    tun.chmod(0o600 if os.geteuid() == 0 else 0o000)
    assert opening.find_opening(places, tun) == Lack(f"boxes' users may not open {tun}", f"sudo chmod 666 {tun}")


def test_a_start_that_the_host_cannot_make_tells_both_ways_out(tmp_path: Path, tun: Path) -> None:
    with pytest.raises(DriverError) as refused:
        opening.need_opening(place(tmp_path, "nft"), tun)
    assert refused.value.reason == (
        "Boxes of this repository have an open network, and this host cannot make one: there is no pasta. "
        "Mend it with `sudo apt install passt`, or have an admin say `rift repo network OWNER/NAME --mode proxy`."
    )


def test_only_an_open_box_is_told_of_a_name_server() -> None:
    assert etc_files("box", "open")["resolv.conf"] == "nameserver 192.0.0.53\n"
    for network in ("none", "proxy"):
        assert "nameserver" not in etc_files("box", network)["resolv.conf"]
