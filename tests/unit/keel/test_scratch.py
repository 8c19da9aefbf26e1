"""Where tests write: memory, where there is plenty and nobody has said otherwise."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from keel.testing import scratch


def test_a_folder_that_is_told_is_the_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert scratch() == tmp_path


@pytest.mark.parametrize(("free", "memory"), [(3 << 30, True), (64 << 20, False)])
def test_memory_is_used_where_it_has_room(
    free: int, memory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("keel.testing.folders._MEMORY", tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": free}))
    assert (scratch() == tmp_path) is memory


def test_where_there_is_no_such_folder_it_is_the_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("keel.testing.folders._MEMORY", tmp_path / "absent")
    assert scratch() == Path(tempfile.gettempdir())
