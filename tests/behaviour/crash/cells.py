"""One cell of the crash matrix: a Rift of its own, worked with from start to end, and killed once on the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from tests.behaviour.crash import watched
from tests.processes import near

from keel.clock import SystemClock
from keel.testing.plugin import Cluster, FreshDatabase

ROOT = Path(__file__).parents[3]


@dataclass
class Zygote:
    """The process that servers are forked from."""

    scratch: Path
    process: subprocess.Popen[str]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def fork(self, data: Path, port: int, database: str) -> int:
        """A server's process id."""
        async with self.lock:
            assert self.process.stdin
            assert self.process.stdout
            self.process.stdin.write(f"{data}\t{port}\t{database}\n")
            self.process.stdin.flush()
            return int(await asyncio.to_thread(self.process.stdout.readline))


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A zygote for the length of the block."""
    scratch = Path(tempfile.mkdtemp(prefix="rift-crash-"))
    process = subprocess.Popen(
        [sys.executable, watched.__file__, str(scratch)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )  # fmt: skip
    try:
        yield Zygote(scratch, process)
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(timeout=30)
        shutil.rmtree(scratch)


@dataclass
class Plant:
    """What cells are copied from: a data folder and a database in which somebody has a repository, and no box is."""

    cluster: Cluster
    zygote: Zygote
    data: Path
    template: str
    made: int = 0

    @asynccontextmanager
    async def cell(self, data: Path | None = None) -> AsyncIterator[Cell]:
        """A fresh copy, gone afterwards; in a folder of its own or in `data`."""
        self.made += 1
        name = f"crash_{os.getpid()}_{self.made}"
        data = data or Path(tempfile.mkdtemp(prefix="rift-cell-"))
        await asyncio.to_thread(_copy, self.data, data)
        database = self.cluster.create(name, self.template)
        cell = Cell(self.zygote, data, database)
        cell.rows("UPDATE repos SET url = %(origin)s", origin=str(data / "origin"))
        try:
            yield cell
        finally:
            await cell.end()
            self.cluster.drop(name)


@asynccontextmanager
async def plant(cluster: Cluster, zygote: Zygote) -> AsyncIterator[Plant]:
    """Made by a first start, which also tries out the host's jails."""
    name, data = f"crash_{os.getpid()}_plant", Path(tempfile.mkdtemp(prefix="rift-plant-"))
    database = cluster.create(name)
    first = Cell(zygote, data, database)
    _points(data)
    try:
        await first.start()
        await first.call("rift_unwatch", repo="acme/app", ref="main")
        await first.until(lambda: not first.rows("SELECT 1 FROM boxes WHERE state <> 'destroyed'"))
        await first.kill()
        first.rows("TRUNCATE boxes, commands, procrastinate_jobs, procrastinate_workers CASCADE")
        (data / "log").unlink()
        first.sql.close()
        while cluster.admin.execute("SELECT 1 FROM pg_stat_activity WHERE datname = %s", [name]).fetchall():
            await asyncio.sleep(0.01)
        yield Plant(cluster, zygote, data, name)
    finally:
        await first.end()
        cluster.drop(name)


def _points(data: Path) -> None:
    data.chmod(0o711)
    folder = data / "points"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)
    for file in (folder / "points", folder / "control"):
        file.write_text("")
        file.chmod(0o666)
    (folder / "ready").unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)
    _points(target)


class Gone(Exception):
    """The server went away under a call: whether it was done is not known."""


@dataclass
class Said:
    """An answer: its text, its structure, its refusal's code."""

    text: str
    structure: dict[str, Any]
    refused: str | None


class Cell:
    """A whole Rift and its one client. The server is started again whenever it is gone, as a service manager does."""

    def __init__(self, zygote: Zygote, data: Path, database: FreshDatabase) -> None:
        self.zygote, self.data, self.database = zygote, data, database
        self.clock = SystemClock()
        self.pid = 0
        self.phase = ""
        self.starts = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.sql = psycopg.connect(database.owner, autocommit=True, row_factory=dict_row)

    # What serves.

    async def start(self) -> None:
        """Serve; returns once requests are taken."""
        ready = self.data / "points" / "ready"
        ready.unlink(missing_ok=True)
        self.starts += 1
        # Who read an origin, and is gone, is followed by another after a while: that time is over too.
        self.rows("UPDATE repos SET sync_until = now() - interval '1 second' WHERE sync_until IS NOT NULL")
        self.pid = await self.zygote.fork(self.data, self.port, self.database.runtime)
        until = self.clock.monotonic() + 60
        while not ready.exists():
            if not self.alive():
                return  # killed on its way up: whoever waits starts it again
            assert self.clock.monotonic() < until, self.log()
            await asyncio.sleep(0.01)

    def alive(self) -> bool:
        """Whether the server's process is there."""
        if not self.pid:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    async def kill(self) -> None:
        """As kill -9 does."""
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
        while self.alive():
            await asyncio.sleep(0.005)

    async def have_server(self) -> None:
        """Start it when it is gone. It may be killed on its way up, once."""
        while not self.alive() or not (self.data / "points" / "ready").exists():
            assert self.starts < 4, f"the server does not stay up\n{self.log()}"
            await self.start()

    def log(self, most: int = 6000) -> str:
        """The end of what the servers logged."""
        try:
            return (self.data / "log").read_text(errors="replace")[-most:]
        except FileNotFoundError:
            return ""

    async def end(self) -> None:
        """Kill what is left, remove the folder."""
        await self.kill()
        self.sql.close()
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(shutil.rmtree, self.data, ignore_errors=True)

    # What the boundaries tell.

    def begin(self, phase: str, target: str = "") -> None:
        """What is reached from now on is of this phase; the target, if it is reached, ends its process."""
        self.phase, self.starts = phase, 0
        self.rows("UPDATE boxes SET tries = 0")  # the last phase is long ago
        control = self.data / "points" / "control"
        fresh = f"{phase}\n{target}".encode()
        descriptor = os.open(control, os.O_WRONLY)
        os.pwrite(descriptor, fresh, 0)
        os.ftruncate(descriptor, len(fresh))
        os.close(descriptor)

    def recorded(self) -> dict[str, str]:
        """The boundaries reached so far, in order, each with the phase in which it was reached first."""
        lines = (self.data / "points" / "points").read_text(errors="replace").splitlines()
        pairs = [line.partition("\t") for line in lines if not line.startswith("KILLED ")]
        found: dict[str, str] = {}
        for phase, _, name in pairs:
            found.setdefault(name, phase)
        return found

    def killed(self) -> list[str]:
        """The boundaries at which a process was ended."""
        lines = (self.data / "points" / "points").read_text(errors="replace").splitlines()
        return [line.removeprefix("KILLED ") for line in lines if line.startswith("KILLED ")]

    def killed_once(self) -> bool:
        """Whether this phase's target was reached."""
        return "\n" not in (self.data / "points" / "control").read_text().rstrip("\n")

    # What is looked at.

    def rows(self, query: str, **values: Any) -> list[dict[str, Any]]:
        """One statement as the database's owner."""
        cursor = self.sql.execute(query, values)
        return list(cursor) if cursor.description else []

    async def until(self, true: Callable[[], Any], within: float = 60.0, what: str = "") -> Any:
        """Wait for a condition, with the server up and time passing for boxes that are not heard."""
        end = self.clock.monotonic() + within
        while not (found := true()):
            await self.have_server()
            if self.clock.monotonic() > end:
                raise AssertionError(f"{what or 'what was awaited'} did not come to be\n{self.state()}\n{self.log()}")
            await asyncio.sleep(0.03)
        return found

    async def time_passes(self) -> None:
        """Again and again, also while a call waits."""
        while True:
            await asyncio.sleep(0.2)
            self.let_time_pass()

    async def soon(self, true: Callable[[], Any], within: float = 6.0) -> None:
        """Wait for what may not come at all."""
        end = self.clock.monotonic() + within
        while not true() and self.clock.monotonic() < end:
            await asyncio.sleep(0.03)

    def let_time_pass(self) -> None:
        """An agent that is gone is looked for after half a minute of silence: that time is over now."""
        heard = "SELECT id FROM boxes WHERE state = 'running' AND seen_at > now() - interval '30 seconds'"
        for row in self.rows(heard):
            if not self.agent_lives(row["id"]):
                self.rows("UPDATE boxes SET seen_at = now() - interval '31 seconds' WHERE id = %(id)s", id=row["id"])

    def agent_lives(self, box: str) -> bool:
        """Whether the process that is a box's agent is there."""
        try:
            pid = int((self.data / "boxes" / box / "agent.pid").read_text())
            return f"{self.data.name}/boxes/{box}" in Path(f"/proc/{pid}/cmdline").read_text()
        except (OSError, ValueError):
            return False

    def state(self) -> str:
        """The rows, for whoever reads a failure."""
        boxes = self.rows("SELECT id, name, state, incarnation, tries, failure, task FROM boxes ORDER BY created_at")
        commands = self.rows("SELECT box, n, kind, state, exit, reason FROM commands ORDER BY box, n")
        jobs = self.rows("SELECT id, task_name, status, lock, worker_id FROM procrastinate_jobs ORDER BY id")
        return "\n".join(map(str, [*boxes, *commands, *jobs, "killed at:", *self.killed()]))

    def processes(self, box: str = "") -> list[tuple[int, str]]:
        """The processes of boxes (of one box), whatever is left of them."""
        found = near(f"{self.data.name}/boxes/{box}")
        return [(pid, said) for pid, said in found.items() if pid != self.pid]

    # What the client does.

    async def once(self, tool: str, **arguments: Any) -> Said:
        """One call. Raises Gone when the server goes away under it."""
        await self.have_server()
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "crash", "version": "1"},
        }
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": meta},
        }
        token = json.loads((self.data / "people.json").read_text())["ada"]
        try:
            status, text = await asyncio.wait_for(_post(self.port, token, tool, json.dumps(body).encode()), 70)
        except (OSError, EOFError, ValueError) as error:
            raise Gone(str(error)) from error
        assert status == 200, (status, text)
        result = json.loads(text)["result"]
        said = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
        refused = result.get("_meta", {}).get("rift/refusal", {}).get("code") if result.get("isError") else None
        return Said(said, result.get("structuredContent") or {}, refused)

    async def call(self, tool: str, **arguments: Any) -> Said:
        """A call that may be repeated: until it is answered."""
        while True:
            try:
                return await self.once(tool, **arguments)
            except Gone:
                await asyncio.sleep(0.02)


async def _post(port: int, token: str, tool: str, body: bytes) -> tuple[int, str]:
    """One request on a connection of its own; the status and the JSON-RPC reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        told = await reader.read(-1)
    finally:
        writer.close()
    head_bytes, found, rest = told.partition(b"\r\n\r\n")
    if not found:
        raise EOFError("no answer")
    status = int(head_bytes.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head_bytes.lower():
        rest = _unchunked(rest)
    text = rest.decode()
    if b"text/event-stream" in head_bytes.lower():
        replies = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
        replies = [line for line in replies if line and ("result" in (one := json.loads(line)) or "error" in one)]
        if not replies:
            raise EOFError("the stream ended without a reply")
        text = replies[-1]
    if not text.strip():
        raise EOFError("an empty answer")
    return status, text


def _unchunked(data: bytes) -> bytes:
    parts: list[bytes] = []
    while data:
        size, found, data = data.partition(b"\r\n")
        if not found:
            raise EOFError("cut in a chunk")
        count = int(size, 16)
        if count == 0:
            return b"".join(parts)
        parts.append(data[:count])
        data = data[count + 2 :]
    raise EOFError("the last chunk is missing")
