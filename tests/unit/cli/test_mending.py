"""The commands that mend a host, as whoever asks would type them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rift.cli.place import Place
from rift.cli.repos import lack_told, open_told
from rift.settings import RiftSettings

PLACE = Place(Path("/data"), RiftSettings(), (".venv/bin/rift", " --data /data"))
SCOPE = "systemd-run --user --scope -p Delegate=yes"


@pytest.mark.parametrize(
    ("uid", "command", "typed"),
    [
        (1000, "sudo apt install git", "sudo apt install git"),
        (0, "sudo apt install git", "apt install git"),
        (1000, f"{SCOPE} rift up", f"{SCOPE} .venv/bin/rift up --data /data"),
        (0, ".venv/bin/rift up --data /data", ".venv/bin/rift up --data /data"),
        (1000, "rift up", "rift up"),
    ],
    ids=["user", "root", "within", "spelled", "short"],
)
def test_root_types_no_sudo_and_rift_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch, uid: int, command: str, typed: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert PLACE.mending(command) == typed


def test_an_open_network_that_cannot_be_names_what_follows_and_both_ways_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert lack_told("acme/app", "there is no pasta", "sudo apt install passt", PLACE) == (
        "This host cannot make an open network yet: there is no pasta. "
        "Until that is mended, no box of acme/app starts.\n"
        "  `sudo apt install passt` mends it\n"
        "  `.venv/bin/rift repo network acme/app --mode proxy --data /data` goes back"
    )
    assert open_told("acme/app", possible=False).startswith("Boxes of acme/app are to reach the public internet")
    assert open_told("acme/app", possible=True).startswith("Boxes of acme/app reach the public internet")
