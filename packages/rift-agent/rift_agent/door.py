"""The door: git's and the verbs' way out of a jail, to the control plane and nowhere else.

One request a connection, one thread each; loaded by the first. The control plane decides; what is said to it is this
agent's own head, with its own token, and the jail's body. Nothing is kept of it: a side that does not take makes the
other wait, and so does a parked box.
"""

from __future__ import annotations

import _thread
import socket
import time

from rift_agent.asked import HEAD_LIMIT, Asked, Chunks, Refused, parse
from rift_agent.http import Connection
from rift_agent.log import say
from rift_agent.pump import Way, carry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rift_agent.config import Config

MOST = 16  # requests at once; one more is told so
TURNED_AWAY = 8  # of those at once; one more is closed unserved
HEAD_PATIENCE = 15.0  # seconds for a request's head
IDLE = 600.0  # seconds in which nothing moves either way: a pack is being made, or unpacked
LINGER = 64  # pieces of an unread body that are taken, so that the answer is not lost
_CHUNK = 65536
_places = _thread.allocate_lock()
_taken = 0


def accept(listener: int, config: Config) -> None:
    """Accepts one connection on the jail's loopback and serves it in a thread."""
    with socket.socket(fileno=listener) as sock:
        try:
            client, _ = sock.accept()
        except BlockingIOError:
            return
        finally:
            sock.detach()
    place = _place(1)
    if place > MOST + TURNED_AWAY:
        _place(-1)
        client.close()
        return
    _thread.start_new_thread(_serve_and_leave, (client, config, place > MOST))


def serve(client: socket.socket, config: Config, *, full: bool = False) -> None:
    """Serves the one request of a connection."""
    try:
        raw, early = _read_head(client)
        asked = parse(raw)
        if full:
            raise Refused("503 Service Unavailable", f"This box has {MOST} requests at Rift's door. Try again.")
        try:
            connection = Connection(config.server, config.token())
            server = connection.connect(asked.method, f"/agent/v1/{config.box}/{config.incarnation}/door{asked.path}",
                                        [*asked.lines, *_framing(asked), "Connection: close"])  # fmt: skip
        except OSError as error:
            say(f"door: the control plane is not reached: {error}")
            raise Refused("502 Bad Gateway", "Rift cannot be reached at this moment. Try again in a minute.") from None
    except Refused as refused:
        _answer(client, refused)
        return
    with server:
        if asked.expects:
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        _relay(client, server, asked, early, connection.secure)


def _framing(asked: Asked) -> list[str]:
    if asked.length < 0:
        return ["Transfer-Encoding: chunked"]
    return [f"Content-Length: {asked.length}"] if asked.method != "GET" else []


def _relay(client: socket.socket, server: socket.socket, asked: Asked, early: bytes, secure: bool) -> None:
    """The body there, the answer back. Raises OSError."""
    there = _Body(client, server, asked.length)
    back = Way(server, client, -1)
    back.hand_on = False  # nothing may have come: then there is still something to say
    try:
        there.take(early)
        if secure:  # one thread cannot wait for both ways of it: its answer comes after the body
            _send_whole(there, server)
            there.length = 0
            _bring_whole(server, client, back)
        else:
            carry([there, back], back, IDLE)
    except ValueError as error:
        if not back.moved:
            _answer(client, Refused("400 Bad Request", f"Rift's door does not take this request: {error}."))
        return
    if not back.moved:
        # The control plane went away before it answered: what it was asked may or may not have been done.
        _answer(client, Refused("502 Bad Gateway", "Rift went away before it answered. Look what was done, try again."))
        return
    _linger(client)


class _Body(Way):
    """The request's body on its way: so many bytes, or chunks that are read and made anew."""

    def __init__(self, client: socket.socket, server: socket.socket, length: int) -> None:
        super().__init__(client, server, length)
        self._chunks = Chunks() if length < 0 else None

    def take(self, data: bytes) -> bytes:
        """What goes on of these bytes; it is held until it was sent. Raises ValueError."""
        if self._chunks is None:
            data = data[: self.length]
            self.length -= len(data)
        else:
            data = self._chunks.feed(data)
            if self._chunks.done:
                self.length = 0
        self.held += data
        return data


def _send_whole(there: _Body, server: socket.socket) -> None:
    there.source.settimeout(IDLE)
    server.settimeout(IDLE)
    while True:
        try:
            server.sendall(there.held)
        except OSError:
            return  # it may have answered already
        there.held = b""
        if not there.length:
            return
        data = there.source.recv(_CHUNK)
        if not data:
            raise OSError("the client went away")
        there.take(data)


def _bring_whole(server: socket.socket, client: socket.socket, back: Way) -> None:
    client.settimeout(IDLE)
    while data := server.recv(_CHUNK):
        back.moved += len(data)
        client.sendall(data)


def _serve_and_leave(client: socket.socket, config: Config, full: bool) -> None:
    try:
        with client:
            serve(client, config, full=full)
    except OSError:
        pass  # one side went away in the middle
    finally:
        _place(-1)


def _place(change: int) -> int:
    """Takes a place or leaves it; how many are taken then."""
    global _taken
    with _places:
        _taken += change
        return _taken


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """A request's head, without the blank line after it, and what of its body came with it."""
    raw, end = b"", time.monotonic() + HEAD_PATIENCE
    while b"\r\n\r\n" not in raw:
        left = end - time.monotonic()
        if left <= 0:
            raise Refused("408 Request Timeout", "The request's head came too slowly.")
        if len(raw) > HEAD_LIMIT:
            raise Refused("431 Request Header Fields Too Large", "The request's head is too long.")
        client.settimeout(left)
        try:
            part = client.recv(_CHUNK)
        except socket.timeout:
            continue
        if not part:
            raise OSError("the client went away")
        raw += part
    client.settimeout(IDLE)
    head, _, early = raw.partition(b"\r\n\r\n")
    return head, early


def _answer(client: socket.socket, refused: Refused) -> None:
    """In plain text: git prints it line by line."""
    body = f"{refused.sentence}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    client.settimeout(IDLE)
    client.sendall(head.encode("ascii") + body)
    _linger(client)


def _linger(client: socket.socket) -> None:
    """Closed with something unread, the client might lose the answer."""
    client.settimeout(1)
    try:
        client.shutdown(socket.SHUT_WR)
        for _ in range(LINGER):
            if not client.recv(_CHUNK):
                break
    except OSError:
        pass
