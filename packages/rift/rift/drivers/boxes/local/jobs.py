"""Run the launcher with one job."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from typing import Any

from rift.drivers.boxes.protocol import DriverError, Interrupted


async def run_job(python: str, launcher: os.PathLike[str], job: dict[str, Any], *, seconds: float) -> dict[str, Any]:
    """Give the launcher a job and return its answer. Raises DriverError when the job fails or takes too long,
    Interrupted when the launcher is killed.
    """
    process = await asyncio.create_subprocess_exec(
        python,
        "-I",
        "-S",
        os.fspath(launcher),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        cwd="/",
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(json.dumps(job).encode())
    except TimeoutError as error:
        raise DriverError(f"Preparing the box took longer than {seconds:g} s.") from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)  # git too; the agent is in a session of its own
            await process.wait()
    if process.returncode and process.returncode < 0:
        raise Interrupted(f"The box's launcher was ended by signal {-process.returncode}.")
    try:
        answer = json.loads(out)
    except ValueError as error:
        said = err.decode("utf-8", "replace").strip() or f"exit code {process.returncode}"
        raise DriverError(f"The box's launcher failed: {said[-2000:]}") from error
    if not isinstance(answer, dict) or "error" in answer:
        raise DriverError(str(answer["error"]) if isinstance(answer, dict) else f"The box's launcher said {answer!r}.")
    return answer
