"""The floors and the peer: what the same work costs without Rift, on the same machine, in the same run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO

from bench.harness import Client, free_port
from rift.drivers.boxes.local import LocalConfig

MIRRORS = LocalConfig(Path()).group
"""The host group that opens the mirrors to boxes."""


def jail_words(box: Path, scratch: Path) -> list[str]:
    """bwrap with the mounts of a real box: overlays on layers of their own, everything else as the box has it."""
    config = json.loads((box / "agent.json").read_text())
    words = [config["bwrap"], "--unshare-all", "--die-with-parent", "--new-session", "--uid", "1000", "--gid", "1000"]
    words += ["--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"]
    for number, mount in enumerate(config["mounts"]):
        kind, target = mount["kind"], mount["target"]
        if kind == "overlay":
            upper, work = scratch / f"upper{number}", scratch / f"work{number}"
            for place in (scratch, upper, work):
                place.mkdir(exist_ok=True)
                os.chown(place, owner(box), -1)
            words += ["--overlay-src", mount["source"], "--overlay", str(upper), str(work), target]
        elif kind in ("ro", "rw"):
            words += ["--ro-bind" if kind == "ro" else "--bind", mount["source"], target]
        elif kind == "symlink":
            words += ["--symlink", mount["source"], target]
        else:
            words += [f"--{kind}", target]
    return [*words, "--proc", "/proc", "--dev", "/dev"]


def owner(box: Path) -> int:
    """The host user that a box runs as."""
    return box.stat().st_uid


def run_as(words: list[str], user: int, stdout: int | BinaryIO = subprocess.DEVNULL) -> None:
    """Run a program to its end as a user of the host; as root it becomes that user, else it is one already."""
    become: dict[str, Any] = {"user": user, "group": MIRRORS, "extra_groups": []} if os.geteuid() == 0 else {}
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=stdout, **become)


def run_times(words: list[str], user: int, times: int, warm_up: int = 5) -> list[float]:
    """Seconds of running a program to its end, each time."""
    taken = []
    for turn in range(times + warm_up):
        began = time.perf_counter()
        run_as(words, user)
        if turn >= warm_up:
            taken.append(time.perf_counter() - began)
    return taken


class Peer(Client):
    """SWE-ReX's own server with its local runtime: a shell session that runs commands, without a jail or a record."""

    async def session(self) -> None:
        """Open the shell session."""
        status, answer = await self.post("/create_session", {"session": "bench", "session_type": "bash"}, self._key)
        if status != 200:
            raise RuntimeError(f"swe-rex: {status} {answer}")

    async def run(self) -> dict[str, Any]:
        """`true` in the session."""
        action = {"action_type": "bash", "session": "bench", "command": "true", "timeout": 30, "check": "silent"}
        status, answer = await self.post("/run_in_session", action, self._key)
        if status != 200:
            raise RuntimeError(f"swe-rex: {status} {answer}")
        return answer

    @property
    def _key(self) -> str:
        return "X-API-Key: bench\r\n"


@asynccontextmanager
async def peer() -> AsyncIterator[int]:
    """SWE-ReX's server on a port of its own."""
    port = free_port()
    words = [sys.executable, "-m", "swerex.server", "--host", "127.0.0.1", "--port", str(port), "--auth-token", "bench"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                break
        yield port
    finally:
        process.terminate()
        process.wait(10)
