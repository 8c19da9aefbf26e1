"""The only way out of a jail in network mode `proxy`: HTTP and CONNECT, to listed hosts at public addresses, ports 80
and 443.

One request a connection. One thread a connection, most of them waiting; loaded by the first connection.
"""

from __future__ import annotations

import collections
import socket

from rift_agent.addresses import listed
from rift_agent.dial import dial_public, dial_through
from rift_agent.log import say
from rift_agent.pump import IDLE, pump
from rift_agent.requests import PORTS, Request, parse
from rift_agent.served import Places, Refusal, answer, read_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from rift_agent.config import Config
    from rift_agent.dial import Dial

    Note = Callable[[str, int, str], None]

ANYWHERE = "*"  # in an allow list: every host of the public internet
MOST = 128  # connections at once; one more is told so
TURNED_AWAY = 16  # of those at once; one more is closed unserved
ITSELF = (b"GET / HTTP/1", b"GET http://127.0.0.1:3128/ HTTP/1", b"GET http://localhost:3128/ HTTP/1")
places = Places(MOST, TURNED_AWAY)
_lately: collections.deque[str] = collections.deque(maxlen=16)


def accept(listener: int, config: Config, note: Note) -> None:
    """Accepts one connection on the jail's loopback and serves it in a thread. `note(host, port, why)` hears each
    refusal.
    """

    def dial_directly(host: str, port: int) -> socket.socket:
        return dial_public(host, port, config.reach)

    def serve_one(client: socket.socket, full: bool) -> None:
        dial = dial_through(config.upstream_proxy, config.reach) if config.upstream_proxy else dial_directly
        serve(client, config, dial, note, full=full)

    if not places.accept(listener, serve_one):
        note("", 0, "busy")


def serve(client: socket.socket, config: Config, dial: Dial, note: Note, *, full: bool = False) -> None:
    """Serves the one request of a connection; `dial(host, port)` makes the way out or raises Refusal."""
    host, port = "", 0
    try:
        raw, early = read_head(client, IDLE)
        if raw.startswith(ITSELF):
            answer(client, "200 OK", _about(config))
            return
        request = parse(raw)
        host, port = request.host, request.port
        if full:
            raise Refusal(
                "503 Service Unavailable",
                f"All {MOST} connections that Rift's proxy carries for a box are in use. Close some, or try again.",
                "busy",
            )
        _check(request, config)
        server = dial(host, port)
    except Refusal as refusal:
        say(f"proxy: {refusal.status}: {refusal.sentence}")
        if refusal.why:
            note(host, port, refusal.why)
        if refusal.sentence not in _lately:
            _lately.append(refusal.sentence)
        _refuse(client, refusal)
        return
    with server:
        server.settimeout(IDLE)
        if request.tunnel:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            server.sendall(early)
            pump(client, server, -1)
        else:
            server.sendall(request.head + early[: request.length])
            pump(client, server, max(0, request.length - len(early)))


def lately() -> list[str]:
    """What was refused, or could not be reached: the last sentences, the newest last."""
    return list(_lately)


def _check(request: Request, config: Config) -> None:
    """Raises Refusal for what no box, or no box of this repository, may ask for."""
    host, named = request.host, config.named
    if request.port not in PORTS:
        raise Refusal(
            "403 Forbidden",
            f"Port {request.port} of {host} is not reachable from a box: only ports 80 and 443 are.",
            "bad_port",
        )
    if ANYWHERE not in config.allow and not listed(host, config.allow):
        if config.barred:
            raise Refusal("403 Forbidden", f"{host} {config.barred}", "not_listed")
        mend = f"Ask an admin of its organization for: rift repo network {named} --allow {host}"
        if ":" in host or host.replace(".", "").isdigit():
            mend = "Only names are ever on it, so use the host's name"
        raise Refusal(
            "403 Forbidden", f"{host} is not on the allow list of the repository {named}. {mend}", "not_listed"
        )


def _refuse(client: socket.socket, refusal: Refusal) -> None:
    """The refusal in full in three places, since each client shows another: status line, header, body."""
    sentence = "".join(letter if letter.isprintable() else "?" for letter in refusal.sentence)
    code = refusal.status.partition(" ")[0]
    answer(client, f"{code} {sentence}", f"{sentence}\n", f"X-Rift-Refusal: {sentence}\r\n")


def _about(config: Config) -> str:
    """What the proxy says of itself: many a program tells of a refused https address no more than "403"."""
    said = "".join(f"- {sentence}\n" for sentence in lately()) or "- nothing\n"
    return (
        f"The proxy of a box of {config.named}: to listed hosts, on ports 80 and 443.\nIt refused lately, or could not "
        f"reach, the newest last:\n{said}"
    )
