"""The doctor on this very host, and on hosts that are not as they should be."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rift.drivers.boxes.local import doctor
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.places import closed_parent
from rift.drivers.boxes.local.runtime import Trial, candidates, find_python, install
from rift.drivers.boxes.protocol import DriverError


@pytest.fixture
def data() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rift-doctor-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


async def test_a_host_that_can_have_boxes_is_well_in_every_point(data: Path) -> None:
    checks = await doctor.check_host(LocalConfig(data))
    assert [check for check in checks if not check.ok] == []
    names = [check.name for check in checks]
    assert names == [
        *("git", "user namespaces", "apparmor", "data folder", "python", "bubblewrap", "overlay"),
        *("parking", "limits", "open network", "disk"),
    ]
    for check in checks:
        assert check.sentence.endswith(".")
    assert sorted(os.listdir(data)) == ["boxes", "lib"]
    assert os.listdir(data / "boxes") == []


async def test_the_doctor_may_come_twice(data: Path) -> None:
    first = await doctor.check_host(LocalConfig(data))
    assert [check.name for check in await doctor.check_host(LocalConfig(data))] == [check.name for check in first]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's boxes have users of their own")
async def test_a_folder_that_boxes_cannot_enter_is_named_with_its_mend(data: Path) -> None:
    closed = data / "closed"
    closed.mkdir(mode=0o700)
    checks = {check.name: check for check in await doctor.check_host(LocalConfig(closed / "rift"))}
    assert not checks["data folder"].ok
    assert checks["data folder"].mend == f"chmod o+x {closed}"
    assert "bubblewrap" not in checks


async def test_no_git_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    check = doctor.check_git()
    assert (check.ok, check.mend) == (False, "sudo apt install git")


async def test_a_bubblewrap_that_does_not_work_gives_way_to_the_next(data: Path) -> None:
    config = LocalConfig(data)
    (data / "boxes").mkdir(mode=0o711)
    (data / "lib").mkdir()
    data.joinpath("lib").chmod(0o755)
    installed = await install(config)
    assert installed.bwrap is not None
    broken = data / "lib" / "broken"
    broken.write_text("#!/bin/sh\necho 'no permission' >&2\nexit 1\n")
    broken.chmod(0o755)
    trial = Trial(config, find_python(), installed.launcher)
    assert await trial.working_bwrap((broken, installed.bwrap)) == installed.bwrap
    with pytest.raises(DriverError, match=r"broken: no permission"):
        await trial.working_bwrap((broken,))
    with pytest.raises(DriverError, match="apt install bubblewrap"):
        await trial.working_bwrap(())


async def test_installing_again_leaves_what_is_the_same(data: Path) -> None:
    config = LocalConfig(data)
    (data / "boxes").mkdir()
    (data / "lib").mkdir()
    first = await install(config)
    before = first.uv.stat()
    assert (await install(config)).uv.stat() == before
    first.uv.write_text("another one")
    await install(config)
    assert first.uv.stat().st_size == before.st_size


def test_the_pinned_bubblewrap_is_tried_before_the_distribution_s() -> None:
    wheel = Path("/lib/wheel")
    assert candidates(wheel)[0] == wheel
    assert candidates(None) == candidates(wheel)[1:]


def test_boxes_use_the_system_s_python_where_it_is_young_enough() -> None:
    if Path("/usr/bin/python3").exists():
        assert find_python().outside == "/usr/bin/python3"


def test_without_a_system_python_ours_is_shown_or_its_lack_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rift.drivers.boxes.local.runtime.SYSTEM_PYTHON", "/nowhere/python3")
    if os.geteuid() == 0 and closed_parent(Path(sys.base_prefix)) is not None:
        with pytest.raises(DriverError, match="`apt install python3`"):
            find_python()
        return
    python = find_python()
    assert Path(python.outside).exists()
    assert python.shown is None or python.inside.startswith("/run/rift/python/bin/")
