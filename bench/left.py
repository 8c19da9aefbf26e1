"""What a Rift has on its host: the memory of its processes, and whatever is left of boxes that should be gone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg


def memory(data: Path, server: int) -> dict[str, float]:
    """MiB of the server's processes, the database's, and one box's share, pages that are shared counted once."""
    groups = {"server": 0.0, "database": 0.0, "boxes": 0.0}
    agents = 0
    family = _family(server)
    for pid, words in _processes():
        place = f"{data}/boxes/"
        if pid in family:
            groups["server"] += _mebibytes(pid)
        elif "postgres" in words[:60] and (str(data) in words or _below_postgres(pid, data)):
            groups["database"] += _mebibytes(pid)
        elif place in words and " run " in words:
            agents += 1
            groups["boxes"] += _mebibytes(pid) + sum(_mebibytes(child) for child in _family(pid) - {pid})
    boxes = groups.pop("boxes")
    return {**groups, "one box": boxes / agents if agents else 0.0, "boxes alive": float(agents)}


def left_behind(data: Path) -> list[str]:
    """Of any box: folders, processes, mounts, groups, pins, rows and jobs. Empty when all is gone."""
    found = [f"folder {path.name}" for path in (data / "boxes").glob("[!.]*")]
    ids = {path.removeprefix("folder ") for path in found}
    found += [f"process {pid} {words[:100]}" for pid, words in _processes() if f"{data}/boxes/" in words]
    found += [f"mount {line}" for line in Path("/proc/mounts").read_text().splitlines() if f"{data}/boxes/" in line]
    for folder, folders, _ in os.walk("/sys/fs/cgroup"):
        found += [f"group {folder}/{name}" for name in folders if name in ids or _is_box(name)]
    for mirror in (data / "mirrors").glob("*"):
        told = subprocess.run(
            ["git", "--git-dir", str(mirror), "for-each-ref", "--format=%(refname)", "refs/rift/boxes"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found += [f"pin {line}" for line in told.stdout.splitlines()]
    with psycopg.connect(_url(data)) as connection:
        rows = connection.execute("SELECT id, state FROM boxes WHERE state <> 'destroyed'").fetchall()
        found += [f"row {id} {state}" for id, state in rows]
        rows = connection.execute("SELECT box, n FROM commands WHERE state IN ('queued', 'claimed')").fetchall()
        found += [f"open command {box}.{n}" for box, n in rows]
        rows = connection.execute(
            "SELECT id, task_name, status FROM procrastinate_jobs "
            "WHERE task_name = ANY('{boxes.start,boxes.destroy,boxes.park,boxes.revive,boxes.close}')"
        ).fetchall()
        found += [f"job {id} {name} {status}" for id, name, status in rows]
    return found


def _url(data: Path) -> str:
    from keel.postgres import EmbeddedPostgres  # of the system that is looked at

    return EmbeddedPostgres(data).url("rift_owner")


def _is_box(name: str) -> bool:
    return len(name) == 26 and name.startswith("b-")


def _processes() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


def _family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, waiting = set(), [pid]
    while waiting:
        one = waiting.pop()
        found.add(one)
        waiting += children.get(one, [])
    return found


def _below_postgres(pid: int, data: Path) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/cwd").startswith(str((data / "postgres").resolve()))
    return False


def _mebibytes(pid: int) -> float:
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0
