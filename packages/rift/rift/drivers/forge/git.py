"""Git as a subprocess: without prompts, with a time limit, with errors fit to be shown."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from contextlib import suppress

from keel.secrecy import masked
from keel.sizes import MIB
from rift.drivers.forge.protocol import ForgeError

#: The transports a repository's address may name. `ext` and other helpers run commands, so they are not among them.
TRANSPORTS = "file:git:http:https:ssh"
OUTPUT_LIMIT = 32 * MIB
"""Bytes that git may print: the heads of a repository with a quarter of a million branches."""
CHUNK = 64 * 1024
ERROR_LINES = 6
ERROR_CHARACTERS = 1000

#: Boxes' users read what is fetched; the mirror's own folder keeps others out. (uvloop takes no `umask=`.)
_READABLE = ("/bin/sh", "-c", 'umask 022; exec git "$@"', "git")


async def git(*words: str, seconds: float, pass_fds: tuple[int, ...] = ()) -> str:
    """Run git and return what it printed. Raises ForgeError when it fails or takes longer than `seconds`.

    The configuration of the user who runs the control plane counts, as that is where access to private
    repositories is set up (credential helpers, keys, proxies).
    """
    if shutil.which("git") is None:
        raise ForgeError("there is no git on this host: `apt install git`")
    process = await asyncio.create_subprocess_exec(
        *_READABLE,
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "gc.auto=0",
        "-c",
        "maintenance.auto=false",
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        pass_fds=pass_fds,
        env=_environment(),
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.timeout(seconds):
            out, err = await asyncio.gather(_all_of(process.stdout), _end_of(process.stderr))
            await process.wait()
    except TimeoutError as error:
        raise ForgeError(f"git took longer than {seconds:g} s") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()
    if process.returncode != 0:
        raise ForgeError(shown(err.decode("utf-8", "replace")) or f"git ended with code {process.returncode}")
    return out.decode("utf-8", "surrogateescape")


async def _all_of(stream: asyncio.StreamReader) -> bytes:
    """What git prints. It may be a stranger's list of branches, so there is a most."""
    parts, size = [], 0
    while part := await stream.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > OUTPUT_LIMIT:
            raise ForgeError(f"git told more than {OUTPUT_LIMIT // MIB} MiB: the repository has too many branches")
    return b"".join(parts)


async def _end_of(stream: asyncio.StreamReader) -> bytes:
    """The end of what git complains of."""
    kept = b""
    while part := await stream.read(CHUNK):
        kept = (kept + part)[-CHUNK:]
    return kept


def _environment() -> dict[str, str]:
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
