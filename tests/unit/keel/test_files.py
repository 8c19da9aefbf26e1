"""Files written whole: nothing half-written is ever under the name, and no link beside it is written through."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from keel.files import no_wait, write_whole


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_is_replaced_and_has_the_mode_that_is_told(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.pem"
    path.write_text("before")
    write_whole(path, b"after", mode)
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_the_new_file_is_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "key.pem.new").symlink_to(other)
    write_whole(tmp_path / "key.pem", b"secret")
    assert other.read_text() == "mine"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key.pem")
    with open(tmp_path / "key.pem", "rb", opener=no_wait) as file:
        assert file.read() == b""
