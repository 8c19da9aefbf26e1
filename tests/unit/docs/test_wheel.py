"""A wheel of Rift brings its documentation with it, and the code finds it there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

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
    assert Path(folder) == tmp_path / "installed" / "rift" / "documentation"
    assert int(count) > 20
