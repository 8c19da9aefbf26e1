"""Load from a process of its own: requests made beforehand, sent over kept connections, as HTTP/1.1.

`python -m bench.load` reads one JSON object from stdin (port, requests as texts, connections, rate) and prints one with
seconds of each answer and how many of each status. With a rate it is an open model: requests leave at their instants,
answered or not, and what is measured begins at the instant a request was due, its wait for a connection included.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast


@dataclass
class Told:
    """What a run of load saw."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    bodies: list[str] = field(default_factory=list)
    whole: float = 0.0
    """Seconds from the first request to the last answer."""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.whole


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, free: Callable[[_Connection], None], answered: Callable[[float, int, bytes], None]) -> None:
        self._free, self._answered = free, answered
        self._got, self._due = b"", 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._free(self)

    def send(self, request: bytes, due: float) -> None:
        """Send a request that was due at an instant."""
        self._due = due
        assert self.transport is not None
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return
        length = head.lower().rpartition(b"content-length: ")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return
        self._got = b""
        self._answered(time.perf_counter() - self._due, int(head.split(b" ", 2)[1]), body)
        self._free(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self._got or error:
            raise RuntimeError(f"the server hung up: {error}")


async def _run(port: int, requests: list[bytes], connections: int, rate: float | None, *, bodies: bool) -> Told:
    told, waiting, free = Told(), deque[tuple[bytes, float]](), deque[_Connection]()
    done, loop = asyncio.Event(), asyncio.get_running_loop()

    def freed(connection: _Connection) -> None:
        if waiting:
            request, due = waiting.popleft()
            connection.send(request, due or time.perf_counter())
        else:
            free.append(connection)

    def answered(seconds: float, status: int, body: bytes) -> None:
        told.seconds.append(seconds)
        told.statuses[status] += 1
        if bodies:
            told.bodies.append(body.decode())
        if len(told.seconds) == len(requests):
            done.set()

    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(freed, answered), "127.0.0.1", port)
    while len(free) < connections:
        await asyncio.sleep(0.01)
    began = time.perf_counter()
    if rate is None:
        waiting.extend((request, 0.0) for request in requests)
        for connection in [free.popleft() for _ in range(min(connections, len(requests)))]:
            freed(connection)
    else:
        for number, request in enumerate(requests):
            due = began + number / rate
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            if free:
                free.popleft().send(request, due)
            else:
                waiting.append((request, due))
    await done.wait()
    told.whole = time.perf_counter() - began
    return told


def run(
    port: int, requests: list[str], *, connections: int = 16, rate: float | None = None, bodies: bool = False
) -> Told:
    """Play it in a process of its own."""
    job = {"port": port, "requests": requests, "connections": connections, "rate": rate, "bodies": bodies}
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    statuses = Counter({int(status): count for status, count in said["statuses"].items()})
    return Told(said["seconds"], statuses, said["bodies"], said["whole"])


def form(path: str, fields: dict[str, str], port: int, header: str = "") -> str:
    """A POST of a form, whole."""
    from urllib.parse import urlencode

    body = urlencode(fields)
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{header}"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )


def main() -> None:
    """The process of its own."""
    import uvloop

    job = json.load(sys.stdin)
    requests = [request.encode() for request in job["requests"]]
    told = uvloop.run(_run(job["port"], requests, job["connections"], job["rate"], bodies=job["bodies"]))
    json.dump(
        {"seconds": told.seconds, "statuses": told.statuses, "bodies": told.bodies, "whole": told.whole}, sys.stdout
    )


if __name__ == "__main__":
    main()
