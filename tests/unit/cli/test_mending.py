"""The commands that mend a host, as whoever asks would type them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rift.cli.place import Place
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
