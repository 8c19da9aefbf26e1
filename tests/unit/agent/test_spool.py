from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rift_agent.spool import SEGMENTS, TAIL, Spool, Spools

KEEP_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
CHUNKS = st.lists(st.binary(max_size=200), max_size=30)


def kept(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


@KEEP_FIXTURES
@given(chunks=CHUNKS, limit=st.integers(1, 600), offset=st.integers(0, 4000), count=st.integers(0, 4000))
def test_what_is_kept_is_the_end_of_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], limit: int, offset: int, count: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spools = Spools(str(folder), limit, 1 << 30)
    spool = spools.new(1)
    for chunk in chunks:
        spools.write(spool, memoryview(chunk))
    whole = b"".join(chunks)
    assert spool.size == len(whole)
    assert spool.kept == kept(folder) <= limit
    assert spool.tail() == whole[max(spool.first, len(whole) - TAIL) :]
    assert len(whole) - spool.first >= min(len(whole), limit - limit // SEGMENTS - 1)
    start = max(offset, spool.first)
    assert spool.read(offset, count) == whole[start : start + count]


@KEEP_FIXTURES
@given(first=CHUNKS, second=CHUNKS, limit=st.integers(1, 600))
def test_a_later_incarnation_reads_what_an_earlier_one_kept(
    tmp_path_factory: pytest.TempPathFactory, first: list[bytes], second: list[bytes], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spools = Spools(str(folder), limit, 1 << 30)
    for n, chunks in ((7, first), (12, second)):
        spool = spools.new(n)
        for chunk in chunks:
            spools.write(spool, memoryview(chunk))
        spools.end(spool)
    later = Spools(str(folder), limit, 1 << 30)
    for n, chunks in ((7, first), (12, second)):
        before, after = spools.get(n), later.get(n)
        assert before is not None
        if not b"".join(chunks):
            continue
        assert after is not None
        assert (after.first, after.size) == (before.first, before.size)
        assert after.read(0, 1 << 20) == before.read(0, 1 << 20)


@KEEP_FIXTURES
@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=20), total=st.integers(0, 1000))
def test_all_together_stay_within_the_total_and_only_whole_old_ones_go(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], total: int
) -> None:
    folder = tmp_path_factory.mktemp("spool")
    spools = Spools(str(folder), 300, total)
    for n, size in enumerate(sizes):
        spool = spools.new(n)
        spools.write(spool, memoryview(b"x" * size))
        assert spool.kept == size
        if size:
            assert kept(folder) <= max(total, size)
        spools.end(spool)
    for n, size in enumerate(sizes):
        found = spools.get(n)
        assert found is not None
        assert found.size == size
        assert found.kept in (0, size)


def test_a_number_used_again_begins_anew(tmp_path: Path) -> None:
    spools = Spools(str(tmp_path), 100, 1000)
    spools.write(spools.new(1), memoryview(b"old"))
    spools.write(spools.new(1), memoryview(b"newer"))
    found = spools.get(1)
    assert found is not None
    assert found.read(0, 10) == b"newer"
    assert kept(tmp_path) == 5


def test_what_is_no_spool_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "1.0").symlink_to("/etc/passwd")
    assert Spools(str(tmp_path), 100, 1000).get(1) is None
    assert (tmp_path / "notes.txt").exists()


def test_of_a_broken_run_only_the_end_counts(tmp_path: Path) -> None:
    for start, content in ((0, b"gone"), (10, b"abc"), (13, b"de")):
        (tmp_path / f"3.{start}").write_bytes(content)
    found = Spools(str(tmp_path), 100, 1000).get(3)
    assert found is not None
    assert (found.first, found.size, found.read(0, 99)) == (10, 15, b"abcde")
    assert kept(tmp_path) == 5


class Disk:
    """A disk with so much room, in place of the real one's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, room: int) -> None:
        self.room = room
        append = Spool.append

        def bounded(spool: Spool, data: memoryview, segment: int) -> int:
            left = self.room - kept(folder)
            if left <= 0:
                raise OSError(errno.ENOSPC, "no space")
            return append(spool, data[:left], segment)

        monkeypatch.setattr(Spool, "append", bounded)


def test_on_a_full_disk_old_commands_go_first_then_the_commands_own_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, tmp_path, 100)
    spools = Spools(str(tmp_path), 160, 1 << 20)
    old = spools.new(1)
    spools.write(old, memoryview(b"o" * 60))
    spools.end(old)
    new = spools.new(2)
    spools.write(new, memoryview(b"n" * 90))
    assert (old.kept, old.size, new.kept, new.full) == (0, 60, 90, False)
    spools.write(new, memoryview(b"m" * 30))
    assert new.full
    assert new.size == 120
    assert new.read(0, 200) == (b"n" * 90 + b"m" * 30)[new.first :]


def test_on_a_disk_with_no_room_at_all_everything_is_counted_and_nothing_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, tmp_path, 0)
    spools = Spools(str(tmp_path), 160, 1 << 20)
    spool = spools.new(1)
    spools.write(spool, memoryview(b"x" * 500))
    assert (spool.first, spool.size, spool.full) == (500, 500, True)
    disk.room = 1000
    spools.write(spool, memoryview(b"back"))
    assert (spool.first, spool.size, spool.read(0, 10)) == (500, 504, b"back")
