"""What every row needs: a Rift of its own, a client that costs little, and numbers told as p50 and p95."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RIFT = Path(sys.executable).with_name("rift")
PROTOCOL = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}
ALONE = {"Rift__Tasks__PerPerson": "1000000", "Rift__Boxes__PerPerson": "1000", "Rift__Onbe__Enabled": "false"}
"""One person does here what many do elsewhere, and Rift alone is measured."""
HANDLE = r"task_\w{8}\.[\w-]+"


@dataclass
class Row:
    """One measure beside its floor or peer, from the same run. `goal` is what the ratio or value should be."""

    name: str
    ours: str
    beside: str
    ratio: float | None
    goal: str
    met: bool | None
    detail: dict[str, Any] = field(default_factory=dict)


def line(row: Row) -> str:
    """A row of the table."""
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    met = "" if row.met is None else "yes" if row.met else "NO"
    return f"| {row.name} | {row.ours} | {row.beside} | {ratio} | {row.goal} | {met} |"


def percentile(values: list[float], share: float) -> float:
    """The value that `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def shown(values: list[float]) -> str:
    """`p50 / p95 ms` of seconds."""
    return f"p50 {percentile(values, 0.5) * 1000:.1f} ms, p95 {percentile(values, 0.95) * 1000:.1f} ms"


async def timed(times: int, act: Callable[[], Awaitable[object]], warm_up: int = 10) -> list[float]:
    """Seconds of each of so many runs, one after the other, after some that do not count."""
    taken = []
    for turn in range(times + warm_up):
        began = time.perf_counter()
        await act()
        if turn >= warm_up:
            taken.append(time.perf_counter() - began)
    return taken


class Client:
    """An MCP client that keeps one connection and asks for plain JSON, so that the load costs little of the machine."""

    def __init__(self, port: int, token: str) -> None:
        self._port, self._token, self._n = port, token, 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's result. Raises RuntimeError on a refusal."""
        self._n += 1
        params = {"name": tool, "arguments": arguments, "_meta": META}
        request = {"jsonrpc": "2.0", "id": self._n, "method": "tools/call", "params": params}
        header = f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        status, answer = await self.post("/mcp", request, header)
        result = answer.get("result")
        if status != 200 or result is None or result.get("isError"):
            raise RuntimeError(f"{tool}: {status} {json.dumps(answer)[:400]}")
        return dict(result)

    async def post(self, path: str, body: dict[str, Any], header: str = "") -> tuple[int, dict[str, Any]]:
        """One POST on the kept connection."""
        if self._writer is None or self._reader is None or self._reader.at_eof():
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        assert self._reader is not None
        data = json.dumps(body).encode()
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {self._token}\r\n{header}"
            f"Accept: application/json\r\nContent-Type: application/json\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
            f"Content-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?i)content-length: (\d+)", head)
        if length is None:
            raise RuntimeError(f"an answer without a length: {head[:200]}")
        return int(head.split()[1]), json.loads(await self._reader.readexactly(int(length[1])) or b"{}")

    async def task(self, name: str) -> str:
        """Open a task; its handle."""
        return found(HANDLE, await self.call("rift_task_new", name=name))

    async def box(self, task: str, repo: str, ref: str = "main") -> str:
        """A running box; its id."""
        answer = await self.call("rift_vm_new", task=task, repo=repo, ref=ref)
        box = found(r"b-[0-9a-f]{24}", answer)
        while "running" not in json.dumps(answer):
            await asyncio.sleep(0.05)
            answer = await self.call("rift_vm_ls", task=task)
        return box

    async def bash(self, task: str, box: str, command: str, timeout: int = 600) -> dict[str, Any]:
        """Run a command to its end; its structured answer."""
        answer = await self.call("rift_bash", task=task, vm=box, command=command, timeout=timeout, block_for=45)
        return dict(answer["structuredContent"])

    def close(self) -> None:
        """Drop the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def found(pattern: str, answer: dict[str, Any]) -> str:
    """The first match in an answer."""
    match = re.search(pattern, json.dumps(answer))
    if match is None:
        raise RuntimeError(f"no {pattern} in {json.dumps(answer)[:400]}")
    return match[0]


@dataclass
class System:
    """A Rift that runs for the bench alone."""

    data: Path
    port: int
    token: str
    pid: int

    def client(self) -> Client:
        """A client of its own connection."""
        return Client(self.port, self.token)

    def rift(self, *arguments: str, given: str = "") -> str:
        """What a `rift` command printed, with `given` on its standard input."""
        command = [str(RIFT), *arguments, "--data", str(self.data)]
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, input=given, env={**os.environ, **ALONE}
        )
        return done.stdout

    def box_folder(self, box: str) -> Path:
        """Where a box's files are on this host."""
        return self.data / "boxes" / box


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def system() -> AsyncIterator[System]:
    """A fresh Rift on a folder and a port of its own; nothing is left of it."""
    data = Path(tempfile.mkdtemp(prefix="rift-bench-", dir="/var/tmp"))
    data.chmod(0o711)
    port = free_port()
    try:
        process, lines = start(data, port)
        token = next(word for line in lines for word in line.split() if re.fullmatch(r"rift_[\w-]{43}", word))
        yield System(data, port, token, process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        subprocess.run([str(RIFT), "down", "--data", str(data)], check=False, capture_output=True)
        shutil.rmtree(data, ignore_errors=True)


def start(data: Path, port: int, environment: dict[str, str] | None = None) -> tuple[subprocess.Popen[str], list[str]]:
    """`rift up`, until it says that it serves; `environment` is ours where it is None."""
    command = [str(RIFT), "up", "--data", str(data), "--port", str(port)]
    environment = {**(os.environ if environment is None else environment), **ALONE}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            return process, lines
    raise RuntimeError("rift up ended: " + "".join(lines))


@contextmanager
def folder() -> Iterator[Path]:
    """A folder of its own, gone afterwards."""
    place = Path(tempfile.mkdtemp(prefix="rift-bench-", dir="/var/tmp"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {"cores": os.cpu_count(), "kernel": os.uname().release, "python": sys.version.split()[0]}
