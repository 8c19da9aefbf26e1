"""The locks of a data folder: who holds one is told there, and nobody else of the host may take it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keel.holding import hold, holder


def test_a_lock_tells_who_holds_it_while_they_do(tmp_path: Path) -> None:
    path = tmp_path / "rift.lock"
    assert holder(path) is None
    with hold(path, url="http://here"):
        assert holder(path) == {"pid": os.getpid(), "url": "http://here"}
        with pytest.raises(BlockingIOError), hold(path):
            pass
    assert holder(path) is None


@pytest.mark.parametrize("mode", [None, 0o644, 0o666])
def test_a_lock_is_open_to_its_owner_alone_also_one_of_an_earlier_version(tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "rift.lock"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    with hold(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "rift.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), hold(tmp_path / "rift.lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()
