"""The way out of a proxied request: straight to a judged address, or through the host's own proxy. Raises Refusal."""

from __future__ import annotations

import socket

from rift_agent.addresses import barred, is_own, own, reachable
from rift_agent.served import HEAD_LIMIT, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Dial = Callable[[str, int], socket.socket]

PATIENCE = 20.0  # seconds for a connection


def dial_public(host: str, port: int, reach: list[str]) -> socket.socket:
    """A connection to a public address of `host`, or to one in the networks of `reach`.

    The name is looked up once, and what is connected to is the very address that was judged. One address that no box
    may reach is enough to refuse the name, whatever others it has. Raises Refusal.
    """
    try:
        found = socket.getaddrinfo(host.encode("ascii"), port, 0, socket.SOCK_STREAM)
    except OSError as error:
        raise Refusal("502 Bad Gateway", f"{host} cannot be looked up: {error.args[-1]}.") from None
    reason = f"{host} has no address"
    ours = own()
    for *_, address in found:
        _judge(host, str(address[0]), reach)
        if is_own(str(address[0]), ours):
            raise _private(f"{host} is this host itself, which no box may reach.")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(PATIENCE)
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            reason = f"{host} cannot be reached: {error.strerror or error}"
    raise Refusal("502 Bad Gateway", f"{reason}.")


def dial_through(upstream: str, reach: list[str]) -> Dial:
    """Connections by CONNECT through the host's own proxy, `http://host:port`.

    It looks the names up: only an address that stands in the request itself can be judged here, in whatever spelling.
    """

    def dial(host: str, port: int) -> socket.socket:
        if host == "localhost" or host.endswith((".localhost", ".localdomain")):
            raise _private(f"{host} is this host itself, which no box may reach.")
        if literal := _literal(host):
            _judge(host, literal, reach)
        where, _, number = upstream.partition("://")[2].rstrip("/").rpartition(":")
        shown = f"[{host}]" if ":" in host else host
        try:
            sock = socket.create_connection((where.strip("[]"), int(number)), timeout=PATIENCE)
        except (OSError, ValueError) as error:
            raise Refusal("502 Bad Gateway", f"the host's own proxy cannot be reached: {error}.") from None
        try:
            sock.sendall(f"CONNECT {shown}:{port} HTTP/1.1\r\nHost: {shown}:{port}\r\n\r\n".encode("ascii"))
            answer = b""
            while not answer.endswith(b"\r\n\r\n") and len(answer) < HEAD_LIMIT:
                byte = sock.recv(1)  # one by one: what follows the head belongs to the tunnel
                if not byte:
                    break
                answer += byte
        except OSError as error:
            sock.close()
            raise Refusal("502 Bad Gateway", f"the host's own proxy does not answer: {error}.") from None
        if answer.split(b" ")[1:2] != [b"200"] or not answer.endswith(b"\r\n\r\n"):
            sock.close()
            said = answer.partition(b"\r\n")[0].decode("latin-1")[:100]
            raise Refusal("502 Bad Gateway", f"the host's own proxy refused {host}: {said}.")
        return sock

    return dial


def _literal(host: str) -> str:
    """The address that a host spells (2130706433, 0x7f.1, 0177.0.0.1 and 127.1 are 127.0.0.1 too), or "" for a name."""
    if ":" in host:
        return host
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return ""


def _judge(host: str, address: str, reach: list[str]) -> None:
    named = barred(address)
    if named and not reachable(address, reach):
        found = f"{host} is {named}" if address == host else f"{host} has the address {address}, which is {named}"
        raise _private(
            f"{found}; a box reaches only the public internet, whatever the repository's allow list says. Whoever runs "
            "this Rift can open a network of their own with the setting Rift:Boxes:ReachNetworks."
        )


def _private(sentence: str) -> Refusal:
    return Refusal("403 Forbidden", sentence, "private_address")
