"""What `rift doctor` finds out about this host: whether it can have boxes, and one command for each lack."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from keel.sizes import GIB
from rift.drivers.boxes.local.cgroups import Plan, has_systemd
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.limits import held
from rift.drivers.boxes.local.opening import Lack, find_opening
from rift.drivers.boxes.local.places import as_root, check_uids, closed_parent, make_data
from rift.drivers.boxes.local.runtime import BoxPython, Trial, candidates, find_python, install
from rift.drivers.boxes.protocol import DriverError

OLDEST_GIT = (2, 30)
NAMED = {"memory": "memory", "processes": "processes", "cpu_shares": "the share of the CPU"}
LOW_DISK = 10 * GIB


class Check(NamedTuple):
    """One finding. `mend` is one exact command; None where all is well or no command mends it."""

    name: str
    ok: bool
    sentence: str
    mend: str | None = None


async def check_host(config: LocalConfig) -> list[Check]:
    """Every finding, in the order in which a person should mend them. Makes the data folder, and real jails in it."""
    checks = [await asyncio.to_thread(check_git), await asyncio.to_thread(_userns), await asyncio.to_thread(_apparmor)]
    checks += await _jails(config)
    checks.append(await asyncio.to_thread(check_opening))
    checks.append(await asyncio.to_thread(_disk, config.data))
    return checks


async def _jails(config: LocalConfig) -> list[Check]:
    """The findings for which something has to be made: the data folder, Python, bubblewrap, overlays."""
    try:
        await asyncio.to_thread(make_data, config)
    except OSError as error:
        sentence = f"The data folder {config.data} cannot be made: {error.strerror}."
        return [Check("data folder", False, sentence, f"sudo install -d -o {os.geteuid()} {config.data}")]
    enterable = await asyncio.to_thread(check_data, config)
    try:
        python = await asyncio.to_thread(find_python)
    except DriverError as error:
        return [enterable, Check("python", False, error.reason, "sudo apt install python3")]
    found = [enterable, Check("python", True, f"Boxes use {python.outside}.")]
    return found + (await _bwrap(config, python) if enterable.ok else [])


async def _bwrap(config: LocalConfig, python: BoxPython) -> list[Check]:
    try:
        installed = await install(config)
    except (OSError, DriverError) as error:
        return [Check("bubblewrap", False, f"The boxes' programs cannot be put into {config.lib}: {error}.")]
    trial = Trial(config, python, installed.launcher)
    try:
        bwrap = await trial.working_bwrap(candidates(installed.bwrap))
    except DriverError as error:
        mend = _userns().mend or _apparmor().mend or "sudo apt install bubblewrap"
        return [Check("bubblewrap", False, error.reason, mend)]
    overlay = await trial.overlay_works(bwrap)
    plan = (await trial.working_groups()).plan
    return [
        Check("bubblewrap", True, f"{bwrap} makes jails, with a network and a process table of their own."),
        Check(
            "overlay",
            True,
            "Boxes can install into /usr/local and /opt, each into a layer of its own."
            if overlay
            else "Overlay mounts do not work here (an older kernel, or the data folder's file system): "
            "/usr and /opt are read-only in boxes.",
        ),
        Check("parking", True, "Boxes are parked by stopping their processes."),
        limits_check(plan, os.uname().release, root=as_root(), systemd=has_systemd()),
    ]


def check_git() -> Check:
    """Git's presence and version."""
    path = shutil.which("git")
    if path is None:
        return Check("git", False, "There is no git.", "sudo apt install git")
    told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    version = tuple(map(int, re.findall(r"\d+", told)[:2]))
    if version < OLDEST_GIT:
        wanted = ".".join(map(str, OLDEST_GIT))
        return Check("git", False, f"{told.strip()} is older than {wanted}.", "sudo apt install git")
    return Check("git", True, f"{told.strip()}.")


def check_data(config: LocalConfig) -> Check:
    """Whether boxes can have users of their own, and these can get to their folders."""
    name = "data folder"
    if not as_root():
        return Check(name, True, f"{config.data} is yours, and so are the boxes in it.")
    closed = closed_parent(config.boxes)
    if closed is not None:
        return Check(name, False, f"Boxes' users may not enter {closed}.", f"chmod o+x {closed}")
    try:
        check_uids(config)
    except DriverError as error:
        return Check(name, False, error.reason, f"export {error.reason.split('`')[1]}")
    return Check(name, True, f"Boxes' users can get to {config.boxes}.")


def _userns() -> Check:
    """Whether the kernel lets ordinary users make user namespaces, by its switches."""
    name = "user namespaces"
    if not Path("/proc/self/ns/user").exists():
        return Check(name, False, "This kernel has no user namespaces; another kernel is needed.")
    if _number("/proc/sys/kernel/unprivileged_userns_clone") == 0:
        sentence = "User namespaces are switched off for ordinary users."
        return Check(name, False, sentence, "sudo sysctl -w kernel.unprivileged_userns_clone=1")
    if _number("/proc/sys/user/max_user_namespaces") == 0:
        return Check(name, False, "No user namespace may be made.", "sudo sysctl -w user.max_user_namespaces=15000")
    return Check(name, True, "Ordinary users may make user namespaces.")


def _apparmor() -> Check:
    name = "apparmor"
    if _number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1:
        sentence = "AppArmor keeps ordinary users' user namespaces from having mounts."
        return Check(name, False, sentence, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
    return Check(name, True, "AppArmor does not restrict user namespaces.")


def limits_check(plan: Plan, release: str, *, root: bool, systemd: bool) -> Check:
    """What holds boxes' limits here, what nothing holds, and the command that has more of them held.

    Never a failure: boxes work without, and every host holds some.
    """
    by = held(plan, release, own_user=root)
    groups = [NAMED[name] for name in NAMED if by[name] == "cgroup"]
    each = [NAMED[name] for name in ("memory", "processes") if by[name] == "rlimit"]
    told = [f"By cgroups: {', '.join(groups)}." if groups else f"Not by cgroups: {plan.why or 'they lack the means'}."]
    if "memory" in each:
        told.append("Memory is limited for each process, not for the sum of a box's.")
    if "processes" in each:
        told.append("Processes are limited by a resource limit.")
    if not by["processes"]:
        told.append("Processes are not limited: before Linux 5.14 that would count all of yours.")
    if by["cpu_shares"] != "cgroup":
        told.append("The CPU is shared by niceness.")
    told.append("Resource limits hold open files and the size of one file, the agent the disk's sum.")
    mend = None
    if by["memory"] != "cgroup" and not root and systemd:
        mend = "systemd-run --user --scope -p Delegate=yes rift up"
    elif by["memory"] != "cgroup" and root and not plan.v1 and plan.v2 is None:
        mend = "mount -o remount,rw /sys/fs/cgroup" if plan.mounted else "mount -t cgroup2 none /sys/fs/cgroup"
    return Check("limits", True, " ".join(told), mend)


def check_opening() -> Check:
    """Whether boxes can have an open network. Never a failure: only repositories that an admin opens need it."""
    found = find_opening()
    if isinstance(found, Lack):
        sentence = f"No repository's boxes can have an open network: {found.what}."
        return Check("open network", True, sentence, found.mend)
    return Check("open network", True, f"Boxes can have an open network, by {found.pasta} and {found.nft}.")


def _disk(data: Path) -> Check:
    existing = next(folder for folder in (data, *data.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    sentence = f"{free / GIB:.0f} GiB are free for {data}."
    if free < LOW_DISK:
        return Check("disk", False, f"{sentence} Boxes want at least {LOW_DISK // GIB}.", f"du -xh -d 2 {data}")
    return Check("disk", True, sentence)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None
