"""The door: git's and the verbs' way out of a jail, to the control plane and nowhere else.

One request a connection, one thread each; loaded by the first. The control plane decides; what is said to it is this
agent's own head, with its own token, and the jail's body. Nothing is kept of it: a side that does not take makes the
other wait, and so does a parked box.
"""

from __future__ import annotations

import socket

from rift_agent.asked import Asked, Chunks, parse
from rift_agent.http import Connection
from rift_agent.log import say
from rift_agent.pump import Way, carry
from rift_agent.served import Places, Refusal, answer, linger, read_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rift_agent.config import Config

MOST = 16  # requests at once; one more is told so
TURNED_AWAY = 8  # of those at once; one more is closed unserved
IDLE = 600.0  # seconds in which nothing moves either way: a pack is being made, or unpacked
_CHUNK = 65536
places = Places(MOST, TURNED_AWAY)


def accept(listener: int, config: Config) -> None:
    """Accepts one connection on the jail's loopback and serves it in a thread."""
    places.accept(listener, lambda client, full: serve(client, config, full=full))


def serve(client: socket.socket, config: Config, *, full: bool = False) -> None:
    """Serves the one request of a connection."""
    try:
        raw, early = read_head(client, IDLE)
        asked = parse(raw)
        if full:
            raise Refusal("503 Service Unavailable", f"This box has {MOST} requests at Rift's door. Try again.")
        try:
            connection = Connection(config.server, config.token())
            server = connection.connect(asked.method, f"/agent/v1/{config.box}/{config.incarnation}/door{asked.path}",
                                        [*asked.lines, *_framing(asked), "Connection: close"])  # fmt: skip
        except OSError as error:
            say(f"door: the control plane is not reached: {error}")
            raise Refusal("502 Bad Gateway", "Rift cannot be reached at this moment. Try again in a minute.") from None
    except Refusal as refusal:
        _refuse(client, refusal)
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
            _refuse(client, Refusal("400 Bad Request", f"Rift's door does not take this request: {error}."))
        return
    if not back.moved:
        # The control plane went away before it answered: what it was asked may or may not have been done.
        _refuse(client, Refusal("502 Bad Gateway", "Rift went away before it answered. Look what was done, try again."))
        return
    linger(client)


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


def _refuse(client: socket.socket, refusal: Refusal) -> None:
    """In plain text: git prints it line by line."""
    client.settimeout(IDLE)
    answer(client, refusal.status, f"{refusal.sentence}\n")
