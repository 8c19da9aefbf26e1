"""The control plane as far as agents see it: every seat's orders, what its agent said, over HTTP or by a plain call."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

T = TypeVar("T")


@dataclass
class Seat:
    """One incarnation of one box, as the control plane knows it."""

    token: str
    orders: dict[int, dict[str, Any]] = field(default_factory=dict)
    stops: set[int] = field(default_factory=set)
    asks: dict[str, dict[str, Any]] = field(default_factory=dict)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    over: bool = False
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def wait(self, look: Callable[[], T | None], within: float = 20) -> T:
        """Wait until `look` finds something."""
        async with asyncio.timeout(within), self.changed:
            while (found := look()) is None:
                await self.changed.wait()
            return found

    async def event(self, kind: str, n: int | None = None, within: float = 20) -> dict[str, Any]:
        """The first event of that kind (about command `n`)."""

        def look() -> dict[str, Any] | None:
            return next((e for e in self.events if e["type"] == kind and (n is None or e["n"] == n)), None)

        return await self.wait(look, within)

    async def up(self) -> None:
        """Wait for the jail; what kept it from being made is this test's failure."""
        found = await self.wait(lambda: next((e for e in self.events if e["type"] in ("up", "failed")), None))
        assert found["type"] == "up", found

    async def order(self, kind: str, **words: Any) -> int:
        n = len(self.orders) + 1
        self.orders[n] = {"n": n, "kind": kind, "timeout": 60} | words
        await self.tell()
        return n

    async def run(self, command: str) -> tuple[int | None, str]:
        """Run a command to its end: its exit code and output (the last 8 KiB)."""
        ended = await self.event("ended", await self.order("bash", command=command))
        return ended["exit"], base64.b64decode(ended["tail"]).decode()

    async def output(self, n: int, offset: int = 0, limit: int = 65536) -> bytes:
        name = f"ask-{len(self.asks)}"
        self.asks[name] = {"id": name, "n": n, "offset": offset, "limit": limit}
        await self.tell()
        answer = await self.wait(lambda: self.answers.get(name))
        return base64.b64decode(answer["data"])

    async def end(self) -> None:
        self.over = True
        await self.tell()

    def news(self, known: list[int]) -> dict[str, Any] | None:
        ended = {event["n"] for event in self.events if event["type"] == "ended"}
        commands = [order for n, order in self.orders.items() if n not in known and n not in ended]
        stops = [n for n in self.stops if n in known]
        asks = [ask for name, ask in self.asks.items() if name not in self.answers]
        if not (commands or stops or asks or self.over):
            return None
        return {"commands": commands, "stops": stops, "asks": asks}


class Plane:
    """Seats by box and incarnation."""

    def __init__(self) -> None:
        self.seats: dict[tuple[str, int], Seat] = {}
        self.url = "http://plane.invalid"
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def seat(self, box: str, incarnation: int) -> Seat:
        return self.seats.setdefault((box, incarnation), Seat(f"token-{box}-{incarnation}"))

    async def post(self, path: str, body: dict[str, Any], token: str) -> tuple[int, dict[str, Any]]:
        """One request of an agent; the path is `/agent/v1/<box>/<incarnation>/<what>`."""
        box, incarnation, what = path.split("/")[3:6]
        seat = self.seats.get((box, int(incarnation)))
        if seat is None or seat.over:
            return 410, {}
        if token != seat.token:
            return 401, {}
        if what == "work":
            return await self._work(seat, body)
        if what == "events":
            seat.events += body["events"]
        else:
            seat.answers.setdefault(body["id"], body)
        await seat.tell()
        return 200, {}

    async def _work(self, seat: Seat, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answer: dict[str, Any] = {"commands": [], "stops": [], "asks": []}
        with contextlib.suppress(TimeoutError):
            answer = await seat.wait(lambda: seat.news(body["known"]), within=body["wait"])
        return (410, {}) if seat.over else (200, answer | {"power": body["power"]})

    async def serve(self) -> None:
        """Also answer over HTTP, on a port of loopback that is free."""

        async def handle(request: Request) -> JSONResponse:
            token = request.headers["authorization"].removeprefix("Bearer ")
            status, answer = await self.post(request.url.path, json.loads(await request.body()), token)
            return JSONResponse(answer, status)

        app = Starlette(routes=[Route("/agent/v1/{path:path}", handle, methods=["POST"])])
        config = uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve())
        async with asyncio.timeout(10):
            while not self._server.started:
                await asyncio.sleep(0.005)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def close(self) -> None:
        for seat in self.seats.values():
            await seat.end()
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving
