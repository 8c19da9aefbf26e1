"""`rift doctor` on a system that runs, with something left where nothing should be, and on one that is down."""

from __future__ import annotations

import json
from typing import Any

from tests.behaviour.cli.systems import Running, rift, system

from keel.testing import eventually


def findings(up: Running) -> dict[str, dict[str, Any]]:
    """Its findings that have numbers, by name."""
    told = rift("doctor", "--json", "--data", up.data)
    return {one["name"]: one for one in json.loads(told.out) if "numbers" in one}


async def test_the_doctor_counts_what_is_there_what_is_left_and_what_upkeep_has_removed() -> None:
    with system() as up:
        await up.take()
        well = findings(up)
        assert all(one["ok"] for one in well.values()), well
        assert well["boxes"]["numbers"]["running"] >= 1
        assert well["boxes"]["numbers"]["on_host"] >= well["boxes"]["numbers"]["running"]

        left = up.data / "boxes" / "b-0123456789abcdef01234567"
        left.mkdir()
        found = findings(up)["left behind"]
        assert (found["ok"], found["numbers"]["folders"]) in ((False, 1), (True, 0))  # upkeep may have been as quick
        await eventually(lambda: not left.exists(), within=60, every=0.5)
        assert findings(up)["left behind"]["ok"]

        up.kill()
        left.mkdir()
        told = rift("doctor", "--data", up.data)
        assert told.status == 1
        assert "NO   left behind: Left of boxes that are gone: 1 folders" in told.out
        assert "No server or worker runs; upkeep removes these once one does." in told.out
        assert f"up --data {up.data}" in told.out

        rift("down", "--data", up.data)
        down = findings(up)
        assert list(down) == ["boxes"]
        assert down["boxes"]["ok"]
        assert "database is down" in down["boxes"]["sentence"]
        assert down["boxes"]["numbers"]["on_host"] >= 2
        assert left.is_dir()
