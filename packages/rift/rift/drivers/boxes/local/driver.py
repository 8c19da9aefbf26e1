"""The local driver: boxes as jails on this host."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from keel.sizes import MIB
from rift.drivers.boxes.local import checkouts, control, groups, limits, mounts, places, processes, remains
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.jobs import run_job
from rift.drivers.boxes.local.mounts import Host
from rift.drivers.boxes.local.opening import Opening, need_opening
from rift.drivers.boxes.local.places import BoxDir
from rift.drivers.boxes.local.remove import remove_tree
from rift.drivers.boxes.local.room import room
from rift.drivers.boxes.local.runtime import Runtime
from rift.drivers.boxes.protocol import (
    BoxSpec,
    DriverError,
    Equipment,
    HostRoom,
    Interrupted,
    Presence,
    Started,
    StoreLost,
    outside_transactions,
    telling,
)
from rift_agent import author
from rift_agent.__main__ import words

#: How long one step may take, in seconds.
CHECKOUT_SECONDS = 900.0
POWER_SECONDS = 30.0
ASK_SECONDS = 3.0
QUIT_SECONDS = 3.0
END_SECONDS = 20.0


class LocalBoxes:
    """Makes boxes on this host. All state is on disk and in the process table, so any replica here may use it."""

    kind = "local"

    def __init__(self, config: LocalConfig) -> None:
        self._config = config
        self._runtime = Runtime(config)

    @outside_transactions
    @telling(DriverError, "The box")
    async def start(self, spec: BoxSpec) -> Started:
        await asyncio.to_thread(places.make_data, self._config)
        async with self._locked(spec.box):  # from here on, so that a later `destroy` waits for what this makes
            host = await self._runtime.host()
            box = places.find_box(self._config, spec.box)
            if box is not None and await self._runs_already(box, spec):
                return Started(await asyncio.to_thread(_lacks, box))
            if box is None or (box.uid is None and places.as_root()):
                async with places.locked(self._config, "uids"):
                    box = await asyncio.to_thread(places.make_box, self._config, spec.box, processes.living_uids)
            if box.uid is not None:
                await asyncio.to_thread(_open_mirror, spec, self._config.group)
            return await self._launch(host, box, spec)

    async def _runs_already(self, box: BoxDir, spec: BoxSpec) -> bool:
        """Whether this incarnation runs; an older one is ended. Raises DriverError when a newer one runs."""
        pid = await asyncio.to_thread(processes.agent_of, box)
        if pid is not None:
            running = await asyncio.to_thread(_incarnation, box)
            if running == spec.incarnation:
                return True
            if running is not None and running > spec.incarnation:
                raise DriverError(f"Incarnation {running} of box {spec.box} runs; {spec.incarnation} is over.")
        await self._end(box)
        return False

    async def _launch(self, host: Host, box: BoxDir, spec: BoxSpec) -> Started:
        if spec.equipment is not None:
            await asyncio.to_thread(_check_store, spec.equipment)
        opening = await asyncio.to_thread(need_opening) if spec.network == "open" else None
        agent = await asyncio.to_thread(_own_agent, host.agent, box)
        async with places.locked(self._config, "cgroups"):
            made = await asyncio.to_thread(host.groups.make, spec.box, spec.limits, box.uid)
        job = await asyncio.to_thread(_job, self._config, host, box, spec, agent, made, opening)
        answer = await run_job(host.python, host.launcher, job, seconds=CHECKOUT_SECONDS)
        await self._listening(box, spec, int(answer["pid"]))
        return Started(tuple(map(str, answer["lacks"])))

    async def _listening(self, box: BoxDir, spec: BoxSpec, pid: int) -> None:
        """Wait until the agent answers. Raises DriverError with the end of its log when it never does, Interrupted
        when it ends.
        """
        try:
            async with asyncio.timeout(self._config.start_seconds):
                while True:
                    try:
                        answer = await control.ask(box.socket, {"op": "status"}, seconds=ASK_SECONDS)
                        if answer.get("incarnation") == spec.incarnation:
                            return
                    except DriverError:
                        if not processes.alive(pid, box):
                            break
                    await asyncio.sleep(0.01)
            kind: type[DriverError] = Interrupted
        except TimeoutError:
            kind = DriverError
        said = await asyncio.to_thread(_end_of_log, box)
        await self._end(box)
        raise kind(f"The agent of box {spec.box} did not come up: {said or 'it said nothing'}")

    @outside_transactions
    @telling(DriverError, "The box")
    async def park(self, box: str, epoch: int) -> None:
        await self._power(box, epoch, frozen=True)

    @outside_transactions
    @telling(DriverError, "The box")
    async def resume(self, box: str, epoch: int) -> None:
        await self._power(box, epoch, frozen=False)

    async def _power(self, box: str, epoch: int, *, frozen: bool) -> None:
        found = places.find_box(self._config, box)
        if found is None:
            raise DriverError(f"There is no box {box} on this host.")
        answer = await control.ask(
            found.socket, {"op": "power", "epoch": epoch, "frozen": frozen}, seconds=POWER_SECONDS
        )
        if answer.get("epoch") == epoch and answer.get("frozen") is not frozen:
            raise DriverError(f"The agent of box {box} did not {'park' if frozen else 'resume'} it.")

    @outside_transactions
    @telling(DriverError, "The box")
    async def stop(self, box: str) -> None:
        if not await asyncio.to_thread(self._config.boxes.is_dir):
            return
        async with self._locked(box):
            found = places.find_box(self._config, box)
            if found is not None:
                await self._end(found)
            else:
                await self._end_groups(box)

    @outside_transactions
    @telling(DriverError, "The box")
    async def destroy(self, box: str) -> None:
        path = places.box_path(self._config, box)
        if not await asyncio.to_thread(self._config.boxes.is_dir):
            return
        async with self._locked(box):
            found = places.find_box(self._config, box)
            if found is None:
                await asyncio.to_thread(processes.kill_agents, path / "agent.json")
                await self._end_groups(box)
                return
            await self._end(found)
            await remove_tree(path)

    async def _end(self, box: BoxDir) -> None:
        """End everything of the box: politely if its agent listens, as it knows best what it froze."""
        with suppress(DriverError):  # gone, or beyond asking
            await control.ask(box.socket, {"op": "quit"}, seconds=QUIT_SECONDS)
        await asyncio.to_thread((await self._groups()).kill, box.path.name)
        await processes.end_all(box, seconds=END_SECONDS)
        await self._end_groups(box.path.name)

    async def _end_groups(self, box: str) -> None:
        """End what is in the box's cgroups, and remove them."""
        found = await self._groups()
        await asyncio.to_thread(found.kill, box)
        async with places.locked(self._config, "cgroups"):
            await found.remove(box)

    async def _groups(self) -> groups.Groups:
        """The cgroups as they are found, also where this process makes no boxes of its own."""
        return await asyncio.to_thread(groups.find, self._config.data)

    @outside_transactions
    @telling(DriverError, "The box")
    async def inspect(self, box: str) -> Presence:
        found = places.find_box(self._config, box)
        if found is None:
            return Presence("absent")
        try:
            answer = await control.ask(found.socket, {"op": "status"}, seconds=ASK_SECONDS)
        except control.NoAgent:
            pid = await asyncio.to_thread(processes.agent_of, found)
            if pid is None:
                return Presence("stopped", await asyncio.to_thread(_incarnation, found))
        except DriverError:
            pass  # it is there but slow; what it was started as is known
        else:
            told = answer.get("incarnation")
            return Presence("parked" if answer.get("frozen") else "running", told if type(told) is int else None)
        return Presence("running", await asyncio.to_thread(_incarnation, found))

    @outside_transactions
    @telling(DriverError, "The box")
    async def inventory(self) -> list[str]:
        there = await asyncio.to_thread(remains.look, self._config)
        return sorted(box for box in there.boxes if places.BOX_ID.fullmatch(box))

    @outside_transactions
    @telling(DriverError, "The box")
    async def room(self) -> HostRoom:
        return await asyncio.to_thread(room, self._config.data)

    def _locked(self, box: str) -> Any:
        places.box_path(self._config, box)  # refuses what is no id
        return places.locked(self._config, f"box-{box}")


def _own_agent(agent: Path, box: BoxDir) -> Path:
    """A link to the agent's program in the box's folder.

    The shared one is replaced by the next release while this box's agent still reads from its own.
    """
    own = box.path / "agent.pyz"
    try:
        own.unlink(missing_ok=True)
        own.hardlink_to(agent)
    except OSError:  # a file system without links, or with a limit
        return agent
    return own


def _job(
    config: LocalConfig,
    host: Host,
    box: BoxDir,
    spec: BoxSpec,
    agent: Path,
    made: groups.Made,
    opening: Opening | None,
) -> dict[str, Any]:
    """What the launcher is to do for one start. Paths are relative to the box's folder where they are inside it."""
    repository = spec.short_repository
    if repository in ("", ".", "..") or "\0" in repository:
        raise DriverError(f"{spec.repository!r} cannot be a folder's name.")
    hostname = host_name(spec.name)
    shown = mounts.shown_etc()
    own = mounts.etc_files(hostname, spec.network, spec.repository, spec.origin)
    if checkouts.git_lfs() is not None:
        own["gitconfig"] += checkouts.LFS_CONFIG
    folders = ["home", "home/.local/bin", "tmp", "etc", "spool", "var/tmp", "var/cache", "var/lib", "var/log", "layers"]
    folders.append(author.FOLDER)
    files = [{"path": f"etc/{name}", "text": text, "mode": 0o644} for name, text in own.items()]
    for name in shown:  # the places they are mounted on, as /etc itself is read-only
        if Path("/etc", name).is_dir():
            folders.append(f"etc/{name}")
        else:
            folders.append(str(Path("etc", name).parent))
            files.append({"path": f"etc/{name}", "text": "", "mode": 0o644, "once": True})
    if host.overlay:
        for name in mounts.LAYERED:
            folders += [f"layers/{name}/upper", f"layers/{name}/work"]
        folders += [f"layers/usr/upper/local/{name}" for name in mounts.USR_LOCAL]
    held = limits.held(host.groups.plan, os.uname().release, own_user=box.uid is not None)
    settings = {
        "box": spec.box,
        "incarnation": spec.incarnation,
        "server": spec.server,
        "token_file": str(box.path / "token"),
        "dir": str(box.path),
        "hostname": hostname,
        "repository": repository,
        "named": spec.repository,
        "python": host.jail_python,
        "bwrap": str(host.bwrap),
        "mounts": mounts.mounts(config, host, box.path, spec, shown),
        "env": mounts.environment(config, spec),
        "checkout": f"{mounts.HOME}/{repository}",
        "network": spec.network,
        "allow": list(spec.allow),
        "reach": list(config.reach),
        "pasta": opening.pasta if opening else "",
        "nft": opening.nft if opening else "",
        "upstream_proxy": config.upstream_proxy,
        "spool_limit": min(config.spool_limit, spec.limits.disk // 8),
        "spool_total": min(config.spool_total, spec.limits.disk // 4),
        "power": [spec.epoch, False],
        "cgroups": [str(group) for group in made.jail],
        "limits": limits.told(spec, held),
        "nice": limits.nice(spec.limits, held),
        "setup": spec.equipment.setup if spec.equipment else "",
        "setup_seconds": math.ceil(spec.equipment.setup_seconds) if spec.equipment else 0,
    }
    files.append({"path": "token", "text": spec.token, "mode": 0o600})
    files.append({"path": "agent.json", "text": json.dumps(settings, indent=1), "mode": 0o600})
    return {
        "join": [str(groups.entry(group)) for group in made.agent],
        "open_files": spec.limits.open_files,
        "uid": box.uid,
        "gid": config.group,
        "dir": str(box.path),
        "folders": folders,
        "files": files,
        "links": [{"path": "etc/mtab", "target": "/proc/self/mounts"}, {"path": "var/run", "target": "/run"}],
        "checkout": checkouts.plan(spec, host.git),
        "agent": words(host.python, str(agent), "run", str(box.settings)),
    }


def host_name(name: str) -> str:
    """A box's name as a host name: letters, digits and `-`, at most 63 of them."""
    return re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")[:63].strip("-") or "box"


def _check_store(equipment: Equipment) -> None:
    """Raise StoreLost where a package is not in the store any more: somebody removed it, or its disk was lost."""
    for path in equipment.paths:
        if not os.path.lexists(equipment.store / Path(path).name):
            raise StoreLost(f"The packages of its environment are gone from the host: there is no {path}.")
    if not equipment.store.is_dir():
        raise StoreLost("The packages of its environment are gone from the host: there is no store.")


def _open_mirror(spec: BoxSpec, group: int) -> None:
    """Let the boxes' group, and nobody else, into the mirror; its folder is the one door to what is in it."""
    try:
        found = spec.mirror.stat()
        if found.st_gid != group:
            os.chown(spec.mirror, -1, group)
        if found.st_mode & 0o7777 != 0o750:
            spec.mirror.chmod(0o750)
    except OSError as error:
        raise DriverError(f"The mirror {spec.mirror} cannot be shown to boxes: {error.strerror}.") from error
    closed = places.closed_parent(spec.mirror.parent)
    if closed is not None:
        raise DriverError(f"Boxes' users may not enter {closed}, which holds the mirrors: `chmod o+x {closed}`.")


def _read(box: BoxDir, name: str, limit: int, *, end: bool = False) -> bytes:
    """The first or last bytes of a file in the box's folder, which is not ours: no link followed, no pipe awaited."""
    descriptor = os.open(box.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if end:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
        return file.read(limit) or b""  # None from a pipe that somebody holds open


def _incarnation(box: BoxDir) -> int | None:
    try:
        return int(json.loads(_read(box, "agent.json", MIB))["incarnation"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _lacks(box: BoxDir) -> tuple[str, ...]:
    try:
        return tuple(map(str, json.loads(_read(box, "checkout.done", 65536))["lacks"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ()


def _end_of_log(box: BoxDir) -> str:
    try:
        return _read(box, "agent.log", 2000, end=True).decode("utf-8", "replace").strip()
    except OSError:
        return ""
