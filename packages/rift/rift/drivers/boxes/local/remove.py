"""Remove a box's files, whatever was made of them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from rift.drivers.boxes.protocol import DriverError

#: A second one for folders that had to be opened up, a third for what a dying process wrote meanwhile.
ROUNDS = 3


async def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it. Raises DriverError when something is left.

    `rm` does it, out of this process: it follows no link and crosses no file system, knows no limit of depth, and
    millions of files cost this process nothing. Folders made unreadable are opened up first, if need be; `chmod -R`
    follows no link below its argument either. No process of the box may be alive.
    """
    said = ""
    if not await _there(path):
        return
    for _ in range(ROUNDS):
        said = await _run("rm", "-rf", "--one-file-system", "--", path)
        if not await _there(path):
            return
        await _run("chmod", "-R", "u+rwX", "--", path)
    if await _there(path):
        raise DriverError(f"{path} cannot be removed: {said or 'no reason was given'}")


async def _there(path: Path) -> bool:
    return await asyncio.to_thread(os.path.lexists, path)


async def _run(program: str, *words: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    try:
        assert process.stderr is not None
        first = await process.stderr.read(2000)
        while await process.stderr.read(65536):
            pass  # one line for each file could be a lot
        await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
    return first.decode("utf-8", "replace").strip()
