"""Locks by a file, whoever comes between two steps of taking one."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from rift.drivers import locks


def test_who_looks_whether_a_lock_is_free_takes_it_from_nobody_who_was_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder went, and the next one has a file of their own there, after the look had opened the first."""
    path, real = tmp_path / "lock", fcntl.flock
    path.touch()
    with path.with_name("new").open("w") as new:
        real(new, fcntl.LOCK_EX)

        def flock(descriptor: int, how: int) -> None:
            path.with_name("new").replace(path)
            real(descriptor, how)

        with monkeypatch.context() as between:
            between.setattr(fcntl, "flock", flock)
            assert not locks.unlocked(path)
        assert path.exists()
        with locks.tried(path) as held:
            assert held is None
    assert locks.unlocked(path)
    assert not path.exists()
    assert locks.unlocked(path)
    assert locks.unlocked(tmp_path / "gone" / "lock")
