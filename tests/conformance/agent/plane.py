"""A small stand-in for the control plane: the agent's protocol over real HTTP, with a memory that outlives its server.

`down()` and `up()` stop and start the server on the same port; `lose_next_work()` claims commands and drops the answer
on the floor.
"""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "a-token-of-this-incarnation"
PATIENCE = 60.0


class Plane:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.orders: list[dict[str, Any]] = []
        self.claimed: list[int] = []
        self.stops: set[int] = set()
        self.asks: dict[str, dict[str, Any]] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.power: list[Any] = [0, False]
        self.agent_power: list[Any] = []
        self.events: list[dict[str, Any]] = []
        self.over = False
        self.refuse_events = 0
        self.hates: Callable[[dict[str, Any]], bool] = lambda event: False
        self.works = 0
        self.secrets: dict[str, str] = {}
        self.version = 0
        self.delivered: list[int] = []
        self.author: dict[str, str] | None = None
        self.authors: list[dict[str, str]] = []
        self._lose = False
        self._next = 0
        self._server: Server | None = None
        self.up()

    @property
    def url(self) -> str:
        assert self._server
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        self._server = Server(("127.0.0.1", getattr(self, "port", 0)), Handler)
        self._server.plane = self
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def down(self) -> None:
        assert self._server
        self._server.stopping = True
        with self.changed:
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._server.cut()

    def lose_next_work(self) -> None:
        self._lose = True

    def order(self, kind: str = "bash", timeout: int = 60, **fields: Any) -> int:
        with self.changed:
            self._next += 1
            self.orders.append({"n": self._next, "kind": kind, "timeout": timeout, **fields})
            self.changed.notify_all()
            return self._next

    def set_secrets(self, **values: str) -> None:
        with self.changed:
            self.version += 1
            self.secrets = values

    def bash(self, command: str, timeout: int = 60) -> int:
        return self.order(command=command, timeout=timeout)

    def stop(self, n: int) -> None:
        with self.changed:
            self.stops.add(n)
            self.changed.notify_all()

    def set_power(self, epoch: int, frozen: bool) -> None:
        with self.changed:
            self.power = [epoch, frozen]
            self.changed.notify_all()
        self.wait(lambda: self.agent_power == [epoch, frozen])

    def wait(self, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
        with self.changed:
            if not self.changed.wait_for(condition, patience):
                raise AssertionError(f"it never came; events: {[short(event) for event in self.events]}")
            return condition()

    def ended(self, n: int, patience: float = PATIENCE) -> dict[str, Any]:
        found = self.wait(lambda: [e for e in self.events if e["type"] == "ended" and e["n"] == n], patience)
        assert len(found) == 1
        event: dict[str, Any] = found[0]
        return event

    def run(self, command: str, timeout: int = 60) -> dict[str, Any]:
        return self.ended(self.bash(command, timeout))

    def ask(self, n: int, offset: int, limit: int = 65536) -> dict[str, Any]:
        with self.changed:
            name = f"ask-{len(self.answers)}-{len(self.asks)}-{n}-{offset}"
            self.asks[name] = {"id": name, "n": n, "offset": offset, "limit": limit}
            self.changed.notify_all()
        answer: dict[str, Any] = self.wait(lambda: self.answers.get(name))
        return {**answer, "data": base64.b64decode(answer["data"])}

    def output(self, n: int, limit: int = 1 << 20) -> bytes:
        data, size = b"", 1
        while len(data) < size:
            answer = self.ask(n, len(data), limit)
            size = answer["size"]
            data += answer["data"]
        return data

    def work(self, body: dict[str, Any], server: Server) -> dict[str, Any] | None:
        def news() -> dict[str, Any] | None:
            fresh = [
                order for order in self.orders if order["n"] not in body["known"] and not self._has_ended(order["n"])
            ]
            stops = [n for n in sorted(self.stops) if n in body["known"] and not self._has_ended(n)]
            asks = [ask for name, ask in self.asks.items() if name not in self.answers]
            if fresh or stops or asks or self.power != body["power"] or self.over or server.stopping:
                said = {"commands": fresh, "stops": stops, "asks": asks, "power": self.power}
                if fresh and body["secrets"] != self.version:
                    said["secrets"] = {"version": self.version, "values": self.secrets}
                if fresh and body["author"] != self.author:
                    said["author"] = self.author
                return said
            return None

        with self.changed:
            self.works += 1
            self.agent_power = body["power"]
            self.changed.notify_all()
            self.changed.wait_for(news, body["wait"])
            answer = news() or {"commands": [], "stops": [], "asks": [], "power": self.power}
            if server.stopping:
                return None
            if self.over:
                return {"status": 410}
            self.delivered += [answer["secrets"]["version"]] if "secrets" in answer else []
            self.authors += [answer["author"]] if "author" in answer else []
            self.claimed += [order["n"] for order in answer["commands"] if order["n"] not in self.claimed]
            if self._lose and answer["commands"]:
                self._lose = False
                return None
            return answer

    def _has_ended(self, n: int) -> bool:
        return any(event["type"] == "ended" and event["n"] == n for event in self.events)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    plane: Plane
    stopping = False

    def __init__(self, *args: Any) -> None:
        self._sockets: list[Any] = []
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._sockets.append(request)
        super().process_request(request, client_address)

    def cut(self) -> None:
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(2)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def do_POST(self) -> None:
        plane = self.server.plane
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        what = self.path.rpartition("/")[2]
        if plane.over:
            self._answer(410, {})
        elif what == "work":
            answer = plane.work(body, self.server)
            if answer is None:
                self.close_connection = True
            else:
                self._answer(answer.pop("status", 200), answer)
        else:
            with plane.changed:
                if what == "events" and plane.refuse_events:
                    plane.refuse_events -= 1
                    self._answer(503, {})
                    return
                if what == "events" and any(plane.hates(event) for event in body["events"]):
                    self._answer(400, {})
                    return
                if what == "events":
                    plane.events += body["events"]
                else:
                    plane.answers.setdefault(body["id"], body)
                plane.changed.notify_all()
            self._answer(200, {})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def tail(event: dict[str, Any]) -> bytes:
    return base64.b64decode(event["tail"])


def short(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "tail"}
