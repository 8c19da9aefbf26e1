"""docs/security.md as data, and what the kernel says of a process."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rift.drivers.boxes.local import LocalConfig

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
AS_ROOT = os.geteuid() == 0


@dataclass(frozen=True)
class Row:
    """What the page says of a process, as it is when the one who runs these tests starts Rift."""

    process: str
    user: str
    groups: str
    capabilities: str
    no_new_privs: str
    seccomp: str


def rows() -> dict[str, Row]:
    """The page's first table, by process; those that there are none of here are left out."""
    lines = iter(PAGE.read_text("utf-8").splitlines())
    header = next(line for line in lines if line.startswith("| process |"))
    assert _cells(header) == ["process", "runs", "user", "groups", "capabilities", "no_new_privs", "seccomp"]
    next(lines)
    found = {}
    for line in lines:
        if not line.startswith("|"):
            break
        process, _, *cells = _cells(line)
        here = [_here(cell) for cell in cells]
        if here[0] != "–":
            found[process] = Row(process, *here)
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _here(cell: str) -> str:
    root, slash, user = cell.partition(" / ")
    return (root if AS_ROOT else user) if slash else cell


class Status:
    """/proc/PID/status."""

    def __init__(self, pid: int | str) -> None:
        text = Path(f"/proc/{pid}/status").read_text()
        self.values = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def __getitem__(self, name: str) -> str:
        return self.values[name].strip()

    def ids(self, name: str) -> set[int]:
        return {int(word) for word in self[name].split()}

    def bits(self, name: str) -> int:
        return int(self[name], 16)


def wrong(row: Row, found: Status) -> Iterator[str]:
    """What of a process is not as its row says."""
    mine = Status("self")
    uids = found.ids("Uid")
    if uids != _uids(row.user, uids):
        yield f"{row.process} runs as {uids}, not as {row.user}"
    if row.groups == "none":
        if found.ids("Groups") - found.ids("Gid") or 0 in found.ids("Gid"):
            yield f"{row.process} is in the groups {found['Gid']} {found['Groups']}"
    elif found.ids("Groups") != mine.ids("Groups"):
        yield f"{row.process} is in the groups {found['Groups']}, not in {row.groups}"
    held = {name: found.bits(name) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    assert row.capabilities in ("all", "yours", "none", "empty", "in the jail")
    if row.capabilities == "in the jail":
        if os.readlink(f"/proc/{found['Pid']}/ns/user") == os.readlink("/proc/self/ns/user") and any(held.values()):
            yield f"{row.process} has capabilities on the host: {held}"
    elif row.capabilities in ("none", "empty"):
        if any(held.values()):
            yield f"{row.process} has capabilities: {held}"
    elif found.bits("CapEff") != mine.bits("CapEff"):
        yield f"{row.process} has not {row.capabilities} of the capabilities"
    if row.capabilities == "empty" and found.bits("CapBnd"):
        yield f"{row.process} has a bounding set: {found['CapBnd']}"
    # Whoever runs these tests may have either already, and then everything has.
    for name, field, told in (("NoNewPrivs", "1", row.no_new_privs), ("Seccomp", "2", row.seccomp)):
        if told == "its parent's":
            wanted = Status(found["PPid"])[name]
        elif told in ("yes", "its own"):
            wanted = field
        else:
            assert told == "no", told
            wanted = mine[name]
        if found[name] != wanted:
            yield f"{row.process} has {name} {found[name]}, and the page says {told}"


def _uids(user: str, found: set[int]) -> set[int]:
    if user == "you":
        return {os.geteuid()}
    if user == "reader":
        return {LocalConfig(Path("/")).reader_uid}
    if user == "box":
        config = LocalConfig(Path("/"))
        return (
            {uid for uid in found if config.first_uid <= uid < config.first_uid + config.uids}
            if len(found) == 1
            else set()
        )
    return {pwd.getpwnam(user).pw_uid}
