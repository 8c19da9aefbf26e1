"""Which limit a command met, told from counters that are plain files here, and from its last words."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from rift_agent import causes, measure
from rift_agent.causes import Causes, size
from rift_agent.config import BadConfig, Config

V2 = ("memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill {}\noom_group_kill 0\n", "pids.events", "max {}\n")
V1 = ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n", "pids.events", "max {}\n")


def config(folder: Path, by: str, groups: list[str]) -> Config:
    values = {"memory": 4 * 2**30, "processes": 1024, "disk": 20 * 2**30, "open_files": 64}
    limits = {name: {"value": value, "setting": f"S:{name}", "by": by} for name, value in values.items()}
    fields: dict[str, Any] = {
        "box": "b-1", "incarnation": 1, "server": "http://x", "token_file": "t", "dir": str(folder), "python": "p",
        "bwrap": "b", "mounts": [], "env": {}, "checkout": "/c", "network": "none", "limits": limits, "cgroups": groups,
    }  # fmt: skip
    return Config(fields)


@pytest.mark.parametrize("files", [V2, V1], ids=["v2", "v1"])
def test_what_the_kernel_counted_since_the_start_is_the_cause(files: tuple[str, str, str, str], tmp_path: Path) -> None:
    memory, memory_text, pids, pids_text = files
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def counted(kills: int, refused: int) -> None:
        (tmp_path / "a" / memory).write_text(memory_text.format(kills))
        (tmp_path / "b" / pids).write_text(pids_text.format(refused))

    counted(3, 7)
    found = Causes(config(tmp_path, "cgroup", [str(tmp_path / "a"), str(tmp_path / "b")]))
    before = found.now()
    assert found.of_command(before, 1, b"it failed") == []
    counted(4, 7)
    assert found.of_command(before, 137, b"") == ["killed: out of memory (limit 4 GiB, S:memory)"]
    assert found.of_command(before, 0, b"") == [
        "a process of this VM was killed while it ran: out of memory (limit 4 GiB, S:memory)"
    ]
    assert found.of_box() == "out of memory (limit 4 GiB, S:memory)"
    counted(4, 9)
    assert found.of_command(before, 1, b"")[1] == "the limit of 1,024 processes was reached (S:processes)"
    assert found.crowded()
    assert not found.crowded()


@pytest.mark.parametrize(
    ("by", "code", "output", "hint"),
    [
        ("rlimit", 1, b"OSError: [Errno 24] Too many open files", "may open 64 (S:open_files)"),
        ("rlimit", 1, b"write error: No space left on device", "this VM may hold 20 GiB (S:disk), its /dev/shm 2 GiB"),
        ("rlimit", 1, b"OSError: [Errno 27] File too large", "disk full (limit 20 GiB, S:disk)"),
        ("cgroup", 1, b"line 1: 77 File size limit exceeded", "disk full (limit 20 GiB, S:disk): no file may be"),
        ("rlimit", 1, b"Traceback\nMemoryError\n", "may have 4 GiB of memory (S:memory)"),
        ("rlimit", 254, b"bash: fork: Resource temporarily unavailable", "1,024 processes was reached (S:processes)"),
        ("rlimit", 153, b"", "disk full (limit 20 GiB, S:disk): no file may be larger"),
        ("cgroup", 1, b"Traceback\nMemoryError\n", ""),
        ("cgroup", 1, b"read: Resource temporarily unavailable", ""),
        ("rlimit", 0, b"Too many open files", ""),
        ("rlimit", 1, b"Too many open files" + b" " * 4096, ""),
        ("rlimit", 1, b"assertion failed", ""),
    ],
)
def test_a_failed_commands_last_words_give_a_hint(by: str, code: int, output: bytes, hint: str, tmp_path: Path) -> None:
    found = Causes(config(tmp_path, by, []))
    said = found.of_command(found.now(), code, output)
    assert len(said) == bool(hint)
    assert hint in "".join(said)


def test_a_host_that_allows_fewer_open_files_than_the_limit_is_named(tmp_path: Path) -> None:
    its = config(tmp_path, "rlimit", [])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    its.limits["open_files"].value = most + 1 if most >= 0 else 64
    (said,) = Causes(its).of_command(Causes(its).now(), 1, b"Too many open files")
    assert f"may open {most:,}, which is the most that its host allows" in said or most < 0


def test_a_kill_by_the_host_itself_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = tmp_path / "vmstat"
    host.write_text("nr_free_pages 1\noom_kill 5\n")
    monkeypatch.setattr(causes, "_HOST", str(host))
    found = Causes(config(tmp_path, "rlimit", []))
    assert found.of_command(found.now(), 137, b"") == []
    host.write_text("nr_free_pages 1\noom_kill 6\n")
    (said,) = found.of_command(found.now(), 137, b"")
    assert "the host ran out of memory" in said


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (64 << 20, "64 MiB"), (4 << 30, "4 GiB")],
)
def test_sizes_are_spelled_for_a_person(count: int, text: str) -> None:
    assert size(count) == text


def test_a_limit_that_is_not_complete_is_told(tmp_path: Path) -> None:
    broken = vars(config(tmp_path, "", [])) | {"limits": {"disk": {"value": 1}}, "power": [0, False]}
    with pytest.raises(BadConfig, match=r"limits\.disk"):
        Config(broken)


def counted(folder: Path, most_bytes: int = 1 << 40, most_files: int = 1 << 40) -> measure.Measure:
    found = measure.Measure(most_bytes, most_files)
    try:
        found.tree(str(folder))
    except measure.TooMuch:
        found.files = -1
    return found


def test_files_are_counted_once_and_links_not_followed(tmp_path: Path) -> None:
    box, outside = tmp_path / "box", tmp_path / "outside"
    (box / "a" / "b").mkdir(parents=True)
    outside.mkdir()
    (outside / "big").write_bytes(bytes(1 << 20))
    (box / "a" / "one").write_bytes(bytes(1 << 16))
    (box / "two").hardlink_to(box / "a" / "one")
    (box / "out").symlink_to(outside)
    found = counted(box)
    assert found.files == 4  # two folders, one file of two names, one link
    assert 1 << 16 <= found.bytes < 1 << 18


def test_a_closed_folder_is_looked_into_and_closed_again(tmp_path: Path) -> None:
    closed = tmp_path / "box" / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "big").write_bytes(bytes(1 << 20))
    closed.chmod(0)
    try:
        assert counted(tmp_path / "box").bytes >= 1 << 20
        assert closed.stat().st_mode & 0o777 == 0
    finally:
        closed.chmod(0o700)


def test_a_count_ends_at_its_limit_and_what_is_too_deep_is_too_much(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / str(n)).write_bytes(bytes(8192))
    assert counted(tmp_path, most_bytes=65536).files == -1
    assert counted(tmp_path, most_files=10).files == -1
    assert counted(tmp_path).files == 20


def test_folders_nested_beyond_measure_are_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "DEEPEST", 20)
    (tmp_path / "/".join("d" * 19)).mkdir(parents=True)
    assert (counted(tmp_path).files, counted(tmp_path).deep) == (19, False)
    (tmp_path / "/".join("d" * 20)).mkdir()
    assert counted(tmp_path).deep
