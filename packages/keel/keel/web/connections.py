"""The server's connections, each within bounds: how large a request's head is, how slowly it may come, how slowly its
answer may be read, and how many there are. uvicorn bounds none of these by itself.

A client that keeps within them notices nothing. One that does not is told where it can still be told, and is gone.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, Literal, cast

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from keel.sizes import KIB

log = structlog.get_logger()

Phase = Literal["head", "body", "none"]

PATIENCE = "keel.patience"
"""Among the extensions of a request's scope: `be`, called with seconds, lets this request's body stand still for so
long, and come as slowly as it likes. For who was looked at and is known.
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a connection may cost. Seconds, bytes, and counts."""

    connections: int = 4096
    """Open at once over TCP; and as many over the socket of the boxes' agents."""
    head_bytes: int = 64 * KIB
    headers: int = 128
    head_seconds: float = 15.0
    """From a connection's first moment, or a request's first byte, to the end of the request's head."""
    body_seconds: float = 15.0
    body_rate: int = 64 * KIB
    """A body may take `body_seconds`, and a second more for each so many bytes that came."""
    pipelined: int = 16
    """How many requests may wait on one connection behind the one that is being answered."""
    unread_seconds: float = 20.0
    unread_rate: int = 4 * KIB
    """A client must read so many bytes a second of an answer that waits for it, looked at every `unread_seconds`."""
    linger_seconds: float = 5.0
    """How long a connection that is over may still take: to read its answer, to send what nobody reads."""


EXCESS = 256
"""So many connections over the most are still told why they are refused; those beyond are only closed."""


class Connection(HttpToolsProtocol):
    """One connection. Made by `bounded`."""

    bounds: ClassVar[Bounds]
    counted: ClassVar[Counter[bool]]
    """How many are open: over TCP (True), over a Unix socket (False)."""
    full: ClassVar[ASGIApp]
    """What answers on a connection that is one too many."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._phase: Phase = "head"
        self._came = 0  # bytes since the phase began
        self._head = 0  # bytes of the head, as parsed
        self._since = 0.0
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._unread: int | None = None  # what was not read at the last look; None once it all was
        self._wrong: tuple[int, str] | None = None
        self._patience: float | None = None  # how long this request's body may stand still, where that was said
        self._tcp = True

    # What comes in.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it; one too many is told so once its request's head is there."""
        super().connection_made(cast(asyncio.Transport, transport))
        peer = transport.get_extra_info("socket")
        self._tcp = peer is None or peer.family != socket.AF_UNIX
        self.counted[self._tcp] += 1
        over = self.counted[self._tcp] - self.bounds.connections
        if over > EXCESS:
            self.transport.abort()
        elif over > 0:
            log.warning("http.too_many_connections", most=self.bounds.connections)
            self.app = type(self).full
        self._begin("head", self.bounds.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.counted[self._tcp] -= 1
        for timer in (self._timer, self._reading):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a head or a body."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._phase == "none" and (cycle is None or cycle.response_complete):
            self._begin("head", self.bounds.head_seconds)
        self._came += len(data)
        if self._phase == "body" and self._patience is not None:
            self._expect(self.loop.time() + self._patience)
        elif self._phase == "body":
            self._expect(self._since + self.bounds.body_seconds + self._came / self.bounds.body_rate)
        super().data_received(data)
        if self._phase == "head" and self._came > self.bounds.head_bytes and not self.transport.is_closing():
            self._refuse(431, f"The request's head is larger than {self.bounds.head_bytes} bytes.")

    def on_message_begin(self) -> None:
        """A request's first byte."""
        if self._phase != "head":
            self._begin("head", self.bounds.head_seconds)
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        super().on_url(url)
        self._keep_small(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        super().on_header(name, value)
        self._keep_small(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """The head is there: the request begins, or waits for the one before it."""
        if len(self.pipeline) >= self.bounds.pipelined:
            self._stop_at(429, f"More than {self.bounds.pipelined} requests wait on this connection.")
        self._patience = None
        self.scope.setdefault("extensions", {})[PATIENCE] = {"be": self._be_patient}
        super().on_headers_complete()
        self._begin("body", self.bounds.body_seconds)

    def on_message_complete(self) -> None:
        """The whole request is there."""
        self._phase, self._due = "none", None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with the request, and close."""
        status, message = self._wrong or (400, msg)
        self._refuse(status, message)

    def _should_upgrade_to_ws(self) -> bool:
        """Never, also where a library for websockets is installed: it would be out of all bounds, and counted on."""
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: who asks for a protocol that is not spoken here is answered in HTTP (RFC 9110, 7.8)."""

    # What goes out.

    def pause_writing(self) -> None:
        """The client reads slower than it is answered: from now on it is watched."""
        super().pause_writing()
        if self._reading is None:
            self._unread = self.transport.get_write_buffer_size()
            self._reading = self.loop.call_later(self.bounds.unread_seconds, self._look_at_reading)

    def resume_writing(self) -> None:
        """The client has read what there was."""
        super().resume_writing()
        self._unread = None

    def on_response_complete(self) -> None:
        """A request was answered: what is still to come of its body, or to be read of the answer, may not take long."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._abandon_later()
        elif self._phase == "body":
            self._expect(self.loop.time() + self.bounds.linger_seconds)

    def timeout_keep_alive_handler(self) -> None:
        """The connection is not used any more."""
        super().timeout_keep_alive_handler()
        self._abandon_later()

    # Bounds.

    def _begin(self, phase: Phase, seconds: float) -> None:
        self._phase, self._came, self._since = phase, 0, self.loop.time()
        self._expect(self._since + seconds)

    def _expect(self, due: float) -> None:
        """Look again at `due`. A timer that is set goes off no later, and is then set anew: few are ever cancelled."""
        self._due = due
        if self._timer is not None and self._timer.when() > due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self.loop.call_at(due, self._look_at_sending)

    def _be_patient(self, seconds: float) -> None:
        if self._phase == "body":
            self._patience = seconds
            self._expect(self.loop.time() + seconds)

    def _look_at_sending(self) -> None:
        self._timer = None
        if self._due is None or self.transport.is_closing():
            return
        now = self.loop.time()
        if self.flow.read_paused:  # it is we who do not read
            self._since, self._came = now, 0
            self._due = now + (self._patience or self.bounds.body_seconds)
        if self._due > now:
            self._timer = self.loop.call_at(self._due, self._look_at_sending)
        elif self._phase == "body":
            seconds, rate = self.bounds.body_seconds, self.bounds.body_rate // KIB
            self._refuse(408, f"The request's body came slower than {rate} KiB a second for {seconds:g} seconds.")
        elif self._came:
            self._refuse(408, f"The request's head did not come within {self.bounds.head_seconds:g} seconds.")
        else:  # nothing was asked, so nothing is answered
            self.transport.close()

    def _look_at_reading(self) -> None:
        self._reading = None
        if not self.flow.write_paused:
            return
        left = self.transport.get_write_buffer_size()
        if self._unread is not None and self._unread - left < self.bounds.unread_seconds * self.bounds.unread_rate:
            log.warning("http.unread", bytes=left)
            self.transport.abort()
            return
        self._unread = left
        self._reading = self.loop.call_later(self.bounds.unread_seconds, self._look_at_reading)

    def _keep_small(self, more: int) -> None:
        self._head += more
        if self._head > self.bounds.head_bytes:
            self._stop_at(431, f"The request's head is larger than {self.bounds.head_bytes} bytes.")
        if len(self.headers) > self.bounds.headers:
            self._stop_at(431, f"The request has more than {self.bounds.headers} headers.")

    def _stop_at(self, status: int, message: str) -> None:
        """Raise in the midst of parsing; what is said then is this."""
        self._wrong = (status, message)
        raise ValueError(message)

    def _refuse(self, status: int, message: str) -> None:
        """Say it, if nothing is being said, and close. A request that is under way is over."""
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self._phase, self._due = "none", None
        if answering:
            self.transport.abort()
            return
        body = json.dumps({"error": message}).encode()
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
        self._abandon_later()

    def _abandon_later(self) -> None:
        """What is closed with an answer that nobody reads stays open as long as the client likes, if nobody ends it."""
        self.loop.call_later(self.bounds.linger_seconds, self.transport.abort)


async def busy(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer on a connection that is one too many, where a server has no words of its own for it."""
    answer = JSONResponse(
        {"error": "This server has as many connections open as it may."},
        503,
        {"Retry-After": "5", "Connection": "close"},
    )
    await answer(scope, receive, send)


def bounded(bounds: Bounds, full: ASGIApp = busy) -> type[Connection]:
    """The kind of connection for one server: its own count, within these bounds. For `uvicorn.Config(http=…)`.

    `full` answers whoever is one too many.
    """
    kept = {"bounds": bounds, "counted": Counter[bool](), "full": staticmethod(full)}
    return type("BoundedConnection", (Connection,), kept)
