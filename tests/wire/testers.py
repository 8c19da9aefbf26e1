"""Testers that others wrote, run against any MCP server: `jbt-mcpcheck`, and the Inspector's command line from npm."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSPECTOR = "@modelcontextprotocol/inspector"
INSPECTOR_VERSION = "2.12.0"
ERAS = ("modern", "auto", "legacy")


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ran: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What it printed, as the JSON object that it is."""
        printed: dict[str, Any] = json.loads(self.out)
        return printed


async def ran(
    *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, seconds: float = 120
) -> Ran:
    """Run a program to its end. Raises TimeoutError when it takes longer than `seconds`."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def mcpcheck(url: str, token: str, *more: str) -> Ran:
    """`jbt-mcpcheck` against a server, its report as JSON. Exit code 0: every check passed."""
    command = [str(Path(sys.executable).parent / "mcpcheck"), url, "--token", token, "--legacy-probes", "--json", *more]
    return await ran(*command)


async def inspector(url: str, token: str, era: str, *more: str) -> Ran:
    """The Inspector's command line, speaking one of `ERAS`."""
    home = await asyncio.to_thread(installed, INSPECTOR, INSPECTOR_VERSION)
    program = home / "node_modules" / ".bin" / "mcp-inspector"
    header = f"Authorization: Bearer {token}"
    where = ["--cli", url, "--transport", "http", "--protocol-era", era, "--header", header, "--quiet"]
    kept = {"HOME": str(home), "MCP_CATALOG_PATH": str(home / "catalog.json")}
    return await ran(str(program), *where, *more, env=kept)


def installed(package: str, version: str) -> Path:
    """The folder of a package of npm's, installed once, however many test processes want it at the same time."""
    home = Path(tempfile.gettempdir()) / f"rift-tests-{os.getuid()}" / f"{package.rpartition('/')[2]}-{version}"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "installed").exists():
            asyncio.run(_install(home, f"{package}@{version}"))
            (home / "installed").touch()
    return home


async def _install(home: Path, wanted: str) -> None:
    (home / "package.json").write_text("{}")
    done = await ran("npm", "install", "--no-fund", "--no-audit", "--ignore-scripts", wanted, cwd=home, seconds=300)
    if done.code:
        raise RuntimeError(f"npm could not install {wanted}: {done.err}")
