"""What this host has left for boxes: disk, and memory within the limit of the control group that we run in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from keel.sizes import KIB
from rift.drivers.boxes.protocol import HostRoom

_GROUPS = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "sys/fs/cgroup/memory/memory.usage_in_bytes",
        "sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)
"""Where a container's limit, use and reclaimable cache stand: control groups version 2, then version 1."""


def room(data: Path, root: Path = Path("/")) -> HostRoom:
    """The room on the disk of `data` and in memory, in bytes. `root` is where /proc and /sys are."""
    disk = os.statvfs(data)
    free, total = _memory(root / "proc/meminfo")
    for limit, use, stat, cache in _GROUPS:
        with suppress(OSError, ValueError):  # not there, or "max": no limit
            most = int((root / limit).read_text())
            if most < total:
                used = int((root / use).read_text()) - _numbers(root / stat, 1).get(cache, 0)
                free, total = min(free, max(0, most - used)), most
                break
    return HostRoom(disk.f_bavail * disk.f_frsize, free, total)


def _memory(meminfo: Path) -> tuple[int, int]:
    found = _numbers(meminfo, KIB)
    return found["MemAvailable"], found["MemTotal"]


def _numbers(path: Path, unit: int) -> dict[str, int]:
    """Lines such as `MemTotal:  24684084 kB`, by their first word."""
    lines = (line.replace(":", " ").split() for line in path.read_text().splitlines())
    return {words[0]: int(words[1]) * unit for words in lines if len(words) > 1 and words[1].isdecimal()}
