"""What the proxy and the door do alike for a connection of the jail's: a place for it, its head in time, an answer of
the agent's own. Loaded with the first of them.
"""

from __future__ import annotations

import _thread
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Serve = Callable[[socket.socket, bool], None]

HEAD_LIMIT = 32768
HEAD_PATIENCE = 15.0  # seconds for a request's head
LINGER = 64  # pieces of an unread body that are taken, so that the answer is not lost
_CHUNK = 65536


class Refusal(Exception):
    """The answer of the agent's own: a status and a sentence.

    `why` is the proxy's word in the record: `not_listed`, `private_address`, `bad_port`, `malformed`, `too_slow`,
    `busy`; "" for what is no decision of ours, as a host that does not answer.
    """

    def __init__(self, status: str, sentence: str, why: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.why = why


class Places:
    """Connections at once: `most` are served, as many as `turned_away` beyond those are told so, one more is closed."""

    def __init__(self, most: int, turned_away: int) -> None:
        self.most = most
        self.turned_away = turned_away
        self.taken = 0
        self._lock = _thread.allocate_lock()

    def accept(self, listener: int, serve: Serve) -> bool:
        """Accepts one connection on the jail's loopback; `serve(client, full)` serves it in a thread. False where it
        was closed unserved.
        """
        with socket.socket(fileno=listener) as sock:
            try:
                client, _ = sock.accept()
            except BlockingIOError:
                return True
            finally:
                sock.detach()
        place = self._change(1)
        if place > self.most + self.turned_away:
            self._change(-1)
            client.close()
            return False
        _thread.start_new_thread(self._serve_and_leave, (client, serve, place > self.most))
        return True

    def _serve_and_leave(self, client: socket.socket, serve: Serve, full: bool) -> None:
        try:
            serve_whole(client, serve, full)
        finally:
            self._change(-1)

    def _change(self, by: int) -> int:
        with self._lock:
            self.taken += by
            return self.taken


def serve_whole(client: socket.socket, serve: Serve, full: bool = False) -> None:
    """Serves a connection and closes it."""
    try:
        with client:
            serve(client, full)
    except OSError:
        pass  # one side went away in the middle


def read_head(client: socket.socket, idle: float) -> tuple[bytes, bytes]:
    """A request's head, without the blank line after it, and what of its body came with it; from then on the client is
    waited for `idle` seconds. Raises Refusal, OSError.
    """
    raw, end = b"", time.monotonic() + HEAD_PATIENCE
    while b"\r\n\r\n" not in raw:
        left = end - time.monotonic()
        if left <= 0:
            raise Refusal("408 Request Timeout", "The request's head came too slowly.", "too_slow")
        if len(raw) > HEAD_LIMIT:
            raise Refusal("431 Request Header Fields Too Large", "The request's head is too long.", "malformed")
        client.settimeout(left)
        try:
            part = client.recv(_CHUNK)
        except socket.timeout:
            continue
        if not part:
            raise OSError("the client went away")
        raw += part
    client.settimeout(idle)
    head, _, early = raw.partition(b"\r\n\r\n")
    return head, early


def answer(client: socket.socket, status: str, text: str, more: str = "") -> None:
    """An answer in plain text; `more` are whole lines of its head. Raises OSError."""
    body = text.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        f"{more}Connection: close\r\n\r\n"
    )
    client.sendall(head.encode("latin-1", "replace") + body)
    linger(client)


def linger(client: socket.socket) -> None:
    """Closed with something unread, the client might lose the answer."""
    client.settimeout(1)
    try:
        client.shutdown(socket.SHUT_WR)
        for _ in range(LINGER):
            if not client.recv(_CHUNK):
                break
    except OSError:
        pass
