"""What holds a box's limits on this host, and what its agent is told of them. Pure, but for what is passed in."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from rift.drivers.boxes.local.cgroups import Plan
from rift.drivers.boxes.protocol import BoxSpec, Limits

Held = Literal["cgroup", "rlimit", "watch", ""]
"""By what a limit is held: a cgroup, a resource limit of each process, the agent's looks at the disk, or nothing."""

SETTINGS = {
    "memory": "Rift:Boxes:Memory",
    "processes": "Rift:Boxes:Processes",
    "disk": "Rift:Boxes:Disk",
    "cpu_shares": "Rift:Boxes:CpuShares",
    "open_files": "Rift:Boxes:OpenFiles",
}
COUNTED_APART = (5, 14)
"""Linux counts processes of each user namespace from here on; before, a user's on the whole host."""
NICE = 5
"""How far boxes step back where no cgroup shares the CPU: the server and the agents must be able to answer."""


def held(plan: Plan, release: str, *, own_user: bool) -> dict[str, Held]:
    """What holds each limit here. `release` is the kernel's; `own_user`: each box has a host user of its own."""
    apart = own_user or kernel(release) >= COUNTED_APART
    return {
        "memory": "cgroup" if plan.holds("memory") else "rlimit",
        "processes": "cgroup" if plan.holds("pids") else "rlimit" if apart else "",
        "disk": "watch",
        "cpu_shares": "cgroup" if plan.holds("cpu") else "rlimit",
        "open_files": "rlimit",
    }


def kernel(release: str) -> tuple[int, ...]:
    """A kernel's version: (6, 18) of `6.18.44-generic`."""
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def told(spec: BoxSpec, by: dict[str, Held]) -> dict[str, Any]:
    """The limits as `agent.json` has them: value, what changes it, what holds it."""
    return {
        name: {"value": getattr(spec.limits, name), "setting": setting(spec, name), "by": by[name]} for name in SETTINGS
    }


def setting(spec: BoxSpec, name: str) -> str:
    """What changes a limit of this box: the setting, or the command that made it the repository's own."""
    if name in spec.limits.own:
        return f"rift repo limits {spec.repository} --{name.replace('_', '-')}"
    return SETTINGS[name]


def nice(limits: Limits, by: dict[str, Held]) -> int:
    """How nice a box's processes are: where no cgroup shares the CPU, each step is a quarter less of it."""
    if by["cpu_shares"] == "cgroup":
        return 0
    return max(0, min(19, NICE - round(math.log(limits.cpu_shares / 1024, 1.25))))
