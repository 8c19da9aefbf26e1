"""A wheel of Rift brings its documentation with it, and the code finds it there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from docs.generate import HERE

PACKAGE = HERE.parent / "packages" / "rift"


def test_a_wheel_has_every_page_and_serves_them_from_where_it_is(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PACKAGE, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.removeprefix("rift/documentation/") for name in archive.namelist() if "/documentation/" in name}
        archive.extractall(tmp_path / "installed")
    assert packed == {str(page.relative_to(HERE)) for page in HERE.rglob("*.md")}
    ask = "from rift.wire.docs import pages; print(pages.folder(), len(pages.listed()))"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    said = subprocess.run([sys.executable, "-c", ask], env=env, check=True, capture_output=True, text=True, timeout=60)
    folder, count = said.stdout.split()
    assert Path(folder).resolve() == tmp_path / "installed" / "rift" / "documentation"
    assert int(count) > 20


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a server that is somebody else")
def test_a_server_whose_checkout_is_closed_to_it_reads_the_pages_all_the_same(tmp_path: Path) -> None:
    """As `keel.dropping` has modules found: by a descriptor that was opened before root was given away."""
    closed = tmp_path / "closed"
    here, there = PACKAGE / "rift", closed / "checkout" / "packages" / "rift" / "rift"
    shutil.copytree(here / "wire" / "docs", there / "wire" / "docs")
    for name in ("__init__.py", "wire/__init__.py"):
        shutil.copy(here / name, there / name)
    (closed / "checkout" / "docs").mkdir()
    shutil.copy(HERE / "tasks.md", closed / "checkout" / "docs")
    closed.chmod(0o700)
    way = os.open(there.parent, os.O_PATH)
    try:
        code = f"""
import __future__, collections.abc, dataclasses, functools, os, pathlib, re, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
sys.path.insert(0, "/proc/self/fd/{way}")
from rift.wire.docs import pages
print(pages.text("tasks"))
"""
        said = subprocess.run(
            [sys.executable, "-Ic", code],
            pass_fds=[way],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(way)
    assert said.stdout.strip() == (HERE / "tasks.md").read_text("utf-8").strip(), said.stderr
