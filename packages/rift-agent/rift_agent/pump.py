"""Bytes both ways between two sockets, each way with a small buffer of its own: a side that does not read must not hold
what it sends.
"""

from __future__ import annotations

import select
import socket

IDLE = 600.0  # seconds without a byte either way
_CHUNK = 65536


class Way:
    """From `source` to `sink`; at most `length` more bytes (-1: no bound). Its end is handed on, its bound is not; nor
    its end, where it does not `hand_on`. `moved` counts the bytes that were taken.
    """

    def __init__(self, source: socket.socket, sink: socket.socket, length: int) -> None:
        self.source = source
        self.sink = sink
        self.length = length
        self.held = b""
        self.ended = False
        self.moved = 0
        self.hand_on = True

    @property
    def over(self) -> bool:
        return not self.held and (self.ended or self.length == 0)

    def wants(self) -> tuple[socket.socket, int]:
        """The socket this way waits for, and the event."""
        return (self.sink, select.POLLOUT) if self.held else (self.source, select.POLLIN)

    def move(self) -> None:
        """The next step, if its socket is ready for it. A side that is gone ends this way alone: the other may still
        carry what was said before.
        """
        try:
            if self.held:
                self.held = self.held[self.sink.send(self.held) :]
            else:
                data = self.source.recv(_CHUNK if self.length < 0 else min(_CHUNK, self.length))
                self.ended = not data
                self.moved += len(data)
                self.take(data)
            if self.ended and self.hand_on:
                self.sink.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.held, self.ended = b"", True

    def take(self, data: bytes) -> bytes:
        """What goes on of these bytes; it is held until it was sent."""
        if self.length > 0:
            self.length -= len(data)
        self.held = data
        return data


def pump(client: socket.socket, server: socket.socket, length: int) -> None:
    """Carries bytes until the server has ended and all of it was taken, or nothing moved for IDLE seconds; `length`
    bounds the client's bytes (-1: no bound).
    """
    back = Way(server, client, -1)
    carry([Way(client, server, length), back], back, IDLE)


def carry(ways: list[Way], back: Way, idle: float) -> None:
    """Carries on all `ways` until `back` is over, or nothing moved for `idle` seconds."""
    for sock in (back.source, back.sink):
        sock.setblocking(False)
    while not back.over:
        going = [way for way in ways if not way.over]
        masks: dict[int, int] = {}
        for way in going:
            sock, event = way.wants()
            masks[sock.fileno()] = masks.get(sock.fileno(), 0) | event
        poll = select.poll()
        for fd, mask in masks.items():
            poll.register(fd, mask)
        ready = {fd for fd, _ in poll.poll(idle * 1000)}
        if not ready:
            return
        for way in going:
            if way.wants()[0].fileno() in ready:
                way.move()
