"""Two thousand calls that wait at once: what they cost the server, and what they cost the others."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.harness import META, PROTOCOL, Row, System, found, percentile, shown, timed

SAMPLE = "sample/hello"
CALLS = 2000
BLOCK_SECONDS = 45
RUNS_SECONDS = 35
"""How long the commands run that half of the calls wait for; the other half's never end."""
MIB = 1024 * 1024


@dataclass(frozen=True)
class Waited:
    """One call: when it was answered (seconds since all were begun), and how its command stood; "" for a refusal."""

    at: float
    status: str


async def parked(system: System) -> list[Row]:
    """2,000 `rift_output` calls at once over HTTP, half of them event streams; beside the same server at rest."""
    client = system.client()
    task = await client.task("parked")
    box = await client.box(task, SAMPLE)
    ids = []
    for command in ("sleep 1000", f"sleep {RUNS_SECONDS}"):
        answer = await client.call("rift_bash", task=task, vm=box, command=command, timeout=1000, block_for=0)
        ids.append(found(r"b-[0-9a-f]{24}\.\d+", answer))
    idle, alone = rss(system), await timed(100, lambda: client.call("rift_whoami"))
    began = time.perf_counter()
    calls = [asyncio.create_task(wait(system, task, ids[n % 2], streams=n % 4 < 2, began=began)) for n in range(CALLS)]
    await asyncio.sleep(BLOCK_SECONDS / 3)  # all are there
    beside = await timed(100, lambda: client.call("rift_whoami"))
    peak, held = rss(system), connections(system)
    waited = await asyncio.gather(*calls)
    peak = max(peak, rss(system))
    await client.call("rift_task_close", task=task)
    ended = [one.at for one in waited if one.status == "finished"]
    over = [one.at for one in waited if one.status not in ("finished", "")]
    refused = CALLS - len(ended) - len(over)
    detail = {
        "calls": CALLS, "idle_mib": round(idle / MIB, 1), "peak_mib": round(peak / MIB, 1), "connections": held,
        "first_ended_s": min(ended, default=0.0), "last_ended_s": max(ended, default=0.0),
        "first_over_s": min(over, default=0.0), "last_over_s": max(over, default=0.0),
    }  # fmt: skip
    all_told = len(ended) == len(over) == CALLS // 2
    last = max((one.at for one in waited), default=0.0)
    spread = max(ended, default=0.0) - min(ended, default=0.0)
    return [
        Row(
            "2,000 parked rift_output, server's memory", f"{peak / MIB:.0f} MiB", f"at rest: {idle / MIB:.0f} MiB",
            peak / idle, "< 400 MiB", peak < 400 * MIB, detail,
        ),
        Row("2,000 parked, database connections", f"{held}", "the pool: 12", None, "≤ 20", held <= 20),
        Row(
            "2,000 parked, rift_whoami meanwhile", shown(beside), f"at rest: {shown(alone)}",
            percentile(beside, 0.95) / percentile(alone, 0.95), "p95 ≤ 250 ms", percentile(beside, 0.95) <= 0.25,
        ),
        Row(
            "2,000 parked, answered",
            f"{len(ended)} at an end within {spread:.1f} s, {len(over)} by {last:.1f} s, {refused} refused",
            f"block_for {BLOCK_SECONDS} s", None, "all, in time", all_told and last <= 55,
        ),
    ]  # fmt: skip


async def wait(system: System, task: str, id: str, *, streams: bool, began: float) -> Waited:
    """One `rift_output` on a connection of its own."""
    arguments = {"task": task, "commands": [{"id": id, "offset": 0}], "block_for": BLOCK_SECONDS}
    params = {"name": "rift_output", "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", system.port)
    try:
        accept = "application/json, text/event-stream" if streams else "application/json"
        writer.write(
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {system.token}\r\nConnection: close\r\n"
            f"Accept: {accept}\r\nContent-Type: application/json\r\nMCP-Protocol-Version: {PROTOCOL}\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: rift_output\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        whole = await reader.read(-1)
    finally:
        writer.close()
    status = re.search(rb'"status":\s*"([a-z ]+)"', whole)
    return Waited(time.perf_counter() - began, status[1].decode() if status else "")


def rss(system: System) -> int:
    """The server's resident memory, in bytes; as root its keeper's too."""
    children = Path(f"/proc/{system.pid}/task/{system.pid}/children").read_text().split()
    served = [pid for pid in children if b"rift.keeper.drop" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in (system.pid, *served)]
    lines = [re.search(r"VmRSS:\s+(\d+) kB", text) for text in texts]
    return sum(int(line[1]) * 1024 for line in lines if line)


def connections(system: System) -> int:
    """How many connections the database has, this one not counted."""
    url = f"postgresql://rift_owner@/rift?host={system.data}/postgres/run"
    with psycopg.connect(url) as database:
        row = database.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = 'rift' AND pid <> pg_backend_pid()"
        ).fetchone()
    return int(row[0]) if row else 0
