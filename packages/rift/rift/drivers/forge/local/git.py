"""Git as a subprocess: without prompts, with a time limit, with errors fit to be shown."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Required, TypedDict, Unpack

from keel.secrecy import masked
from keel.sizes import GIB, MIB
from rift.drivers.forge.local.access import lent, without
from rift.drivers.forge.protocol import Access, ForgeError

#: The transports a repository's address may name. `ext` and other helpers run commands, so they are not among them.
TRANSPORTS = "file:git:http:https:ssh"
OUTPUT_LIMIT = 32 * MIB
"""Bytes that git may print: the heads of a repository with a quarter of a million branches."""
CHUNK = 64 * 1024
KEPT_FREE = GIB
"""Bytes of the disk that nothing an origin or a box sends may take."""
LOOK_SECONDS = 0.5
"""How often the room on the disk is looked at while an origin sends; none of what takes less is broken off."""
FULL = "this host has no room for what it sends: its disk is full; tell the platform admin"
ERROR_LINES = 6
ERROR_CHARACTERS = 1000
NO_GIT = "there is no git on this host: `apt install git`"

#: Boxes' users read what is fetched; the mirror's own folder keeps others out. (uvloop takes no `umask=`.)
_READABLE = ("/bin/sh", "-c", 'umask 022; exec git "$@"', "git")
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
)
PLAIN = tuple(word for setting in _SETTINGS for word in ("-c", setting))
"""What every git of ours is told, whatever a repository or a person has set."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Where a git writes what it is sent, and how many bytes of that disk it must leave."""

    place: Path
    free: int


@dataclass(frozen=True, slots=True)
class Ran:
    """How one run went; `err` is the end of what git complained of."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "surrogateescape")


class Given(TypedDict, total=False):
    """What a git of ours is given beside its words."""

    seconds: Required[float]
    """How long it may take."""
    pass_fds: tuple[int, ...]
    url: str
    access: Access | None
    """What opens `url`."""
    more: Mapping[str, str] | None
    """Further variables."""
    given: bytes | None
    """Its standard input."""
    floor: Floor | None
    """It is ended where it would take the last of the disk."""


async def git(*words: str, **how: Unpack[Given]) -> str:
    """Run git and return what it printed. Raises ForgeError when it fails or takes longer than it may.

    The configuration of the user who runs the control plane counts, as that is where access to private
    repositories is set up (credential helpers, keys, proxies).
    """
    ran = await run(*words, **how)
    if ran.code != 0:
        raise ForgeError(shown(ran.err) or f"git ended with code {ran.code}")
    return ran.text


async def run(
    *words: str,
    seconds: float,
    pass_fds: tuple[int, ...] = (),
    url: str = "",
    access: Access | None = None,
    more: Mapping[str, str] | None = None,
    given: bytes | None = None,
    floor: Floor | None = None,
) -> Ran:
    """As `git`, whatever its exit code."""
    if shutil.which("git") is None:
        raise ForgeError(NO_GIT)
    with lent(url, access) as lending:
        process = await asyncio.create_subprocess_exec(
            *_READABLE,
            *PLAIN,
            *lending.words,
            *words,
            stdin=DEVNULL if given is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            pass_fds=(*pass_fds, *lending.fds),
            env=environment() | ({"GIT_ASKPASS": "/bin/false"} if lending.fds else {}) | dict(more or {}),
        )
        full = asyncio.Event()
        guard = None if floor is None else guarding(process, floor, full)
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            async with asyncio.timeout(seconds):
                out, err, _ = await asyncio.gather(
                    all_of(process.stdout), end_of(process.stderr), _give(process, given)
                )
                await process.wait()
        except TimeoutError as error:
            raise ForgeError(f"git took longer than {seconds:g} s") from error
        finally:
            if guard is not None:
                guard.cancel()
            await end(process)
    if full.is_set():
        raise ForgeError(FULL)
    return Ran(process.returncode or 0, out, without(err.decode("utf-8", "replace"), access))


def guarding(process: Process, floor: Floor, full: asyncio.Event) -> asyncio.Task[None]:
    """What ends git once the disk is too full, and says so by `full`. Cancel it when git has ended."""
    return asyncio.create_task(_guard(process, floor, full), name="a guard of the disk")


async def _guard(process: Process, floor: Floor, full: asyncio.Event) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(OSError):  # the folder is not there yet
            if (await asyncio.to_thread(shutil.disk_usage, floor.place)).free < floor.free:
                full.set()
                await end(process)
                return


async def _give(process: Process, given: bytes | None) -> None:
    if given is not None and process.stdin is not None:
        with suppress(ConnectionError):  # it has ended, and its own complaint says why
            process.stdin.write(given)
            await process.stdin.drain()
        process.stdin.close()


async def end(process: Process) -> None:
    """Kill it, and all that it started, if it is still there."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


async def all_of(stream: asyncio.StreamReader) -> bytes:
    """What git prints. It may be a stranger's list of branches, so there is a most."""
    parts, size = [], 0
    while part := await stream.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > OUTPUT_LIMIT:
            raise ForgeError(f"git told more than {OUTPUT_LIMIT // MIB} MiB: the repository has too many branches")
    return b"".join(parts)


async def end_of(stream: asyncio.StreamReader) -> bytes:
    """The end of what git complains of."""
    kept = b""
    while part := await stream.read(CHUNK):
        kept = (kept + part)[-CHUNK:]
    return kept


def environment() -> dict[str, str]:
    """The variables of a git that acts as whoever runs the control plane."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    return kept | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": kept.get("GIT_ASKPASS", "/bin/false"),
        "SSH_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": kept.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
        "GIT_ALLOW_PROTOCOL": TRANSPORTS,
        "LC_ALL": "C.UTF-8",
    }


_KEPT = frozenset({"GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"})


def shown(text: str) -> str:
    """The last lines of an error text, without git's prefixes, credentials masked."""
    lines = [line.strip() for line in masked(text).splitlines()]
    lines = [re.sub(r"^(fatal|error|remote): ", "", line) for line in lines if line]
    return " ".join(lines[-ERROR_LINES:])[-ERROR_CHARACTERS:]
