"""Bytes both ways, whoever reads when, and whichever side goes first."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from rift_agent.pump import pump

SIZE = 8 << 20  # more than both sockets' buffers hold

Ends = tuple[socket.socket, socket.socket, threading.Thread]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The client's and the server's far ends of a pump that runs."""
    client, near = socket.socketpair()
    server, far = socket.socketpair()

    def carry() -> None:
        with near, far:
            pump(near, far, -1)

    thread = threading.Thread(target=carry, daemon=True)
    thread.start()
    for end in (client, server):
        end.settimeout(20)
    yield client, server, thread
    for end in (client, server, near, far):
        end.close()


def push(sock: socket.socket) -> None:
    while True:
        sock.sendall(b"x" * 65536)


def everything(sock: socket.socket) -> int:
    total = 0
    while part := sock.recv(1 << 16):
        total += len(part)
    return total


def test_two_sides_that_send_before_they_read_do_not_lock_each_other(ends: Ends) -> None:
    client, server, thread = ends
    got: list[int] = []

    def serve() -> None:
        reading = threading.Thread(target=lambda: got.append(everything(server)))
        reading.start()
        server.sendall(b"s" * SIZE)
        server.shutdown(socket.SHUT_WR)
        reading.join(20)

    serving = threading.Thread(target=serve)
    serving.start()
    client.sendall(b"c" * SIZE)  # reads nothing until it has sent all
    client.shutdown(socket.SHUT_WR)
    assert everything(client) == SIZE
    serving.join(20)
    thread.join(20)
    assert got == [SIZE]


def test_a_client_that_has_ended_its_half_still_gets_the_answer(ends: Ends) -> None:
    client, server, thread = ends
    client.sendall(b"question")
    client.shutdown(socket.SHUT_WR)
    assert everything(server) == len(b"question")
    server.sendall(b"answer")
    server.close()
    assert everything(client) == len(b"answer")
    thread.join(20)
    assert not thread.is_alive()


def test_an_answer_that_came_before_the_server_hung_up_is_not_lost(ends: Ends) -> None:
    client, server, thread = ends
    server.sendall(b"413 too large")
    server.close()  # while the client is still sending
    with pytest.raises(OSError, match=r"pipe|reset"):
        push(client)
    assert client.recv(100) == b"413 too large"
    thread.join(20)
    assert not thread.is_alive()


def test_a_client_that_is_gone_ends_the_tunnel(ends: Ends) -> None:
    client, server, thread = ends
    client.close()
    assert server.recv(100) == b""
    with pytest.raises(OSError, match=r"pipe|reset"):
        push(server)
    thread.join(20)
    assert not thread.is_alive()
