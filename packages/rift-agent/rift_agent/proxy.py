"""The only way out of a jail in network mode `proxy`: HTTP and CONNECT, to listed hosts at public addresses, ports 80
and 443.

The name is resolved once, each address is judged, and the connection is made to the judged address, so that a name
which changes its answer gains nothing. One request a connection. One thread a connection, most of them waiting; loaded
by the first connection.
"""

from __future__ import annotations

import _thread
import select
import socket
import time

from rift_agent.addresses import barred, listed, reachable
from rift_agent.log import say
from rift_agent.requests import HEAD_LIMIT, PORTS, Refusal, Request, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from rift_agent.config import Config

    Dial = Callable[[str, int], socket.socket]

MOST = 128  # connections at once; one more is closed unserved
HEAD_PATIENCE = 15.0  # seconds for a request's head
CONNECT_PATIENCE = 20.0
IDLE = 600.0  # seconds without a byte either way
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
    if not _place(1):
        client.close()
        return
    _thread.start_new_thread(_serve_and_leave, (client, config))


def serve(client: socket.socket, config: Config, dial: Dial) -> None:
    """Serves the one request of a connection; `dial(host, port)` makes the way out or raises Refusal."""
    try:
        request, early = _read_request(client)
        _check(request, config)
        server = dial(request.host, request.port)
        server.settimeout(IDLE)
    except Refusal as refusal:
        say(f"proxy: {refusal.status}: {refusal.sentence}")
        _answer(client, refusal)
        return
    with server:
        if request.tunnel:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(early)
            pump(client, server, -1)
        else:
            server.sendall(request.head + early[: request.length])
            pump(client, server, max(0, request.length - len(early)))


def pump(client: socket.socket, server: socket.socket, length: int) -> None:
    """Carries bytes both ways until both are done or nothing moved for IDLE seconds; `length` bounds the client's (-1:
    no bound).
    """
    poll = select.poll()
    pairs = {server.fileno(): (server, client)}
    if length:
        pairs[client.fileno()] = (client, server)
    for fd in pairs:
        poll.register(fd, select.POLLIN)
    while server.fileno() in pairs:
        ready = poll.poll(IDLE * 1000)
        if not ready:
            return
        for fd, _ in ready:
            source, sink = pairs[fd]
            most = _CHUNK if source is server or length < 0 else min(_CHUNK, length)
            data = source.recv(most)
            if data:
                sink.sendall(data)
                if source is client and length > 0:
                    length -= len(data)
            if not data or (source is client and length == 0):
                poll.unregister(fd)
                del pairs[fd]
                if not data:
                    sink.shutdown(socket.SHUT_WR)


def dial_public(host: str, port: int, reach: list[str]) -> socket.socket:
    """A connection to a public address of `host`, or to one in the networks of `reach`. Raises Refusal."""
    try:
        found = socket.getaddrinfo(host.encode("ascii"), port, 0, socket.SOCK_STREAM)
    except OSError as error:
        raise Refusal("502 Bad Gateway", f"{host} cannot be looked up: {error.args[-1]}.") from None
    reason = f"{host} has no address"
    for *_, address in found:
        named = barred(str(address[0]))
        if named and not reachable(str(address[0]), reach):
            raise _forbidden(
                f"{host} has the address {address[0]}, which is {named}; a box reaches only the public internet, "
                "whatever the repository's allow list says. Whoever runs this Rift can open a network of their own "
                "with the setting Rift:Boxes:ReachNetworks."
            )
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(CONNECT_PATIENCE)
            sock.connect(address)
            if sock.getsockname()[0] == sock.getpeername()[0]:
                sock.close()
                raise _forbidden(f"{host} is this host itself, which no box may reach.")
            return sock
        except OSError as error:
            sock.close()
            reason = f"{host} cannot be reached: {error.strerror or error}"
    raise Refusal("502 Bad Gateway", f"{reason}.")


def dial_through(upstream: str) -> Dial:
    """Connections by CONNECT through the host's own proxy, `http://host:port`: it looks the names up, addresses are
    judged here.
    """

    def dial(host: str, port: int) -> socket.socket:
        literal = host if ":" in host or host.replace(".", "").isdigit() else ""
        if host == "localhost" or host.endswith(".localhost") or (literal and barred(literal)):
            raise _forbidden(f"{host} is not an address of the public internet.")
        where, _, number = upstream.partition("://")[2].rstrip("/").rpartition(":")
        shown = f"[{host}]" if ":" in host else host
        try:
            sock = socket.create_connection((where.strip("[]"), int(number)), timeout=CONNECT_PATIENCE)
            sock.sendall(f"CONNECT {shown}:{port} HTTP/1.1\r\nHost: {shown}:{port}\r\n\r\n".encode("ascii"))
            answer = b""
            while not answer.endswith(b"\r\n\r\n") and len(answer) < HEAD_LIMIT:
                byte = sock.recv(1)  # one by one: what follows the head belongs to the tunnel
                if not byte:
                    break
                answer += byte
        except (OSError, ValueError) as error:
            raise Refusal("502 Bad Gateway", f"the host's own proxy cannot be reached: {error}.") from None
        if answer.split(b" ")[1:2] != [b"200"]:
            sock.close()
            said = answer.partition(b"\r\n")[0].decode("latin-1")[:100]
            raise Refusal("502 Bad Gateway", f"the host's own proxy refused {host}: {said}.")
        return sock

    return dial


def _serve_and_leave(client: socket.socket, config: Config) -> None:
    def dial_directly(host: str, port: int) -> socket.socket:
        return dial_public(host, port, config.reach)

    dial = dial_through(config.upstream_proxy) if config.upstream_proxy else dial_directly
    try:
        with client:
            serve(client, config, dial)
    except OSError:
        pass  # one side went away in the middle
    finally:
        _place(-1)


def _place(change: int) -> bool:
    global _taken
    with _places:
        if _taken + change > MOST:
            return False
        _taken += change
        return True


def _read_request(client: socket.socket) -> tuple[Request, bytes]:
    """The request, and what of its body came with its head."""
    raw, end = b"", time.monotonic() + HEAD_PATIENCE
    while b"\r\n\r\n" not in raw:
        left = end - time.monotonic()
        if left <= 0 or len(raw) > HEAD_LIMIT:
            raise Refusal("408 Request Timeout" if left <= 0 else "431 Request Header Fields Too Large",
                          "The request's head came too slowly or is too long.")  # fmt: skip
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
    return parse(head), early


def _check(request: Request, config: Config) -> None:
    if request.port not in PORTS:
        raise _forbidden(
            f"Port {request.port} of {request.host} is not reachable from a box: only ports 80 and 443 are."
        )
    if not listed(request.host, config.allow):
        raise _forbidden(
            f"{request.host} is not on the allow list of the repository {config.named}. "
            f"Ask an admin to add it: rift repo network {config.named} --allow {request.host}"
        )


def _forbidden(sentence: str) -> Refusal:
    return Refusal("403 Forbidden", sentence)


def _answer(client: socket.socket, refusal: Refusal) -> None:
    body = f"{refusal.sentence}\n".encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        f"X-Rift-Refusal: {refusal.sentence}\r\nConnection: close\r\n\r\n"
    )
    client.sendall(head.encode("latin-1", "replace") + body)
    client.shutdown(socket.SHUT_WR)
    client.settimeout(1)
    for _ in range(64):  # closed with something unread, the client might lose the answer
        if not client.recv(_CHUNK):
            break
