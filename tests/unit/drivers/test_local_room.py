"""What this host has left: of its disk and its memory, within the limit of the control group that we run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rift.drivers.boxes.local.room import room

MIB = 2**20
MEMINFO = "MemTotal:       24684084 kB\nMemFree:  100 kB\nMemAvailable:   8192 kB\nHugePages_Total:       0\n"


def host(root: Path, **files: str) -> Path:
    """A file system with these files, `__` in a name standing for `/`."""
    for name, text in {"proc__meminfo": MEMINFO, **files}.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_disk_is_the_one_that_holds_the_data(tmp_path: Path) -> None:
    assert room(tmp_path).disk_free > 0
    assert room(Path("/proc"), host(tmp_path)).disk_free == 0


def test_without_a_limit_the_memory_is_the_hosts(tmp_path: Path) -> None:
    found = room(tmp_path, host(tmp_path, sys__fs__cgroup__memory_DOT_max="max\n"))
    assert (found.memory_free, found.memory_total) == (8 * MIB, 24684084 * 1024)


@pytest.mark.parametrize(
    "files",
    [
        {
            "sys__fs__cgroup__memory_DOT_max": f"{20 * MIB}\n",
            "sys__fs__cgroup__memory_DOT_current": f"{18 * MIB}\n",
            "sys__fs__cgroup__memory_DOT_stat": f"anon 5\ninactive_file {3 * MIB}\n",
        },
        {
            "sys__fs__cgroup__memory__memory_DOT_limit_in_bytes": f"{20 * MIB}\n",
            "sys__fs__cgroup__memory__memory_DOT_usage_in_bytes": f"{18 * MIB}\n",
            "sys__fs__cgroup__memory__memory_DOT_stat": f"inactive_file 1\ntotal_inactive_file {3 * MIB}\n",
        },
    ],
)
def test_the_limit_of_a_container_counts_less_what_is_used_and_not_to_be_had_back(
    files: dict[str, str], tmp_path: Path
) -> None:
    found = room(tmp_path, host(tmp_path, **files))
    assert (found.memory_free, found.memory_total) == (5 * MIB, 20 * MIB)


def test_a_limit_beyond_the_hosts_memory_is_none(tmp_path: Path) -> None:
    found = room(tmp_path, host(tmp_path, sys__fs__cgroup__memory__memory_DOT_limit_in_bytes="9223372036854771712\n"))
    assert found.memory_free == 8 * MIB
