"""A small world for boxes with an open network: a host in a network namespace of its own, and what lies around it.

    host    11.22.33.2, 10.9.0.2 (its private network), 2600:bbbb::2, loopback; the agents run here
    world   behind the host's gateway: public servers, private ones, the metadata service; the host's name server too

Every address answers on TCP 80 (HTTP) and UDP 9 (echo), and `heard` keeps which address heard something: what was
refused must not have come anywhere. Names are answered from `names`, each time anew. Needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import http.server
import itertools
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

PUBLIC, PUBLIC_6 = "44.55.66.77", "2600:aaaa::77"
HOST, HOST_OTHER, HOST_6 = "11.22.33.2", "11.22.33.3", "2600:bbbb::2"
PRIVATE = ("10.9.0.1", "10.8.7.6", "172.20.0.5", "192.168.7.7", "100.64.3.3", "169.254.169.254", "198.18.5.5",
           "fd00:9::1", "fd00:ec2::254")  # fmt: skip
RESOLVER = "10.9.0.53"
IP_PKTINFO = 8
_NUMBER = itertools.count()


class World:
    def __init__(self) -> None:
        name = f"rift-{os.getpid()}-{next(_NUMBER)}"
        self.host, self.world = f"{name}-host", f"{name}-world"
        self.heard: list[tuple[str, str]] = []
        self.names: dict[str, Callable[[], list[str]]] = {"public.example": lambda: [PUBLIC]}
        self.folder = Path(tempfile.mkdtemp(prefix="rift-world-"))
        self.folder.chmod(0o755)
        self._servers: list[socketserver.BaseServer] = []
        self._build()
        self._serve()

    def _build(self) -> None:
        for space in (self.host, self.world):
            ip("netns", "add", space)
            self.ip(space, "link", "set", "lo", "up")
        ip("link", "add", "up0", "netns", self.host, "type", "veth", "peer", "name", "down0", "netns", self.world)
        for space, link, addresses in (
            (self.host, "up0", (f"{HOST}/24", f"{HOST_OTHER}/24", "10.9.0.2/24", f"{HOST_6}/64", "fd00:9::2/64")),
            (
                self.world,
                "down0",
                ("11.22.33.1/24", "2600:bbbb::1/64", "fe80::1/64", "10.9.0.1/24", f"{RESOLVER}/24", "fd00:9::1/64"),
            ),
        ):
            for address in addresses:
                extra = ["nodad"] if ":" in address else []
                self.ip(space, "addr", "add", address, "dev", link, *extra)
            self.ip(space, "link", "set", link, "up")
        self.ip(self.host, "route", "add", "default", "via", "11.22.33.1")
        self.ip(self.host, "-6", "route", "add", "default", "via", "fe80::1", "dev", "up0")
        for address in (PUBLIC, PUBLIC_6, *PRIVATE):
            if not address.startswith(("10.9.0.", "fd00:9:")):
                self.ip(self.world, "addr", "add", f"{address}/{128 if ':' in address else 32}", "dev", "lo")
        (self.folder / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n")
        (self.folder / "nsswitch.conf").write_text("hosts: files dns\n")
        os.mknod(self.folder / "tun", 0o020666, os.makedev(10, 200))
        (self.folder / "tun").chmod(0o666)

    def ip(self, space: str, *words: str) -> None:
        ip("-n", space, *words)

    def _serve(self) -> None:
        for space in (self.world, self.host):
            for family in (socket.AF_INET, socket.AF_INET6):
                self.within(space, functools.partial(self._listen, family, 80, Http))
                self.within(space, functools.partial(self._listen, family, 9, Echo))
        self.within(self.world, lambda: self._listen(socket.AF_INET, 53, Names, RESOLVER))

    def _listen(self, family: socket.AddressFamily, port: int, handler: type[Handler], address: str = "") -> None:
        sort = Tcp if handler is Http else Udp
        server = sort(self, family, (address, port), handler)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def shop(self, folder: Path, certificate: Path) -> None:
        """Has the files of a folder at PUBLIC by https; `certificate` holds its key too."""

        def serve() -> None:
            handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
            server = http.server.ThreadingHTTPServer((PUBLIC, 443), handler)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            self._servers.append(server)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

        self.within(self.world, serve)

    def within(self, space: str, make: Callable[[], T]) -> T:
        """What `make` gives in that network namespace: sockets stay where they were made, and so do threads."""
        got: list[T] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                with Path("/run/netns", space).open() as file:
                    if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
                        raise OSError(ctypes.get_errno(), "setns")
                got.append(make())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return got[0]

    def enter(self, uid: int) -> list[str]:
        """The words before a command that is to run on this host as that user."""
        mounts = "; ".join(
            f"mount --bind {self.folder}/{name} {target}"
            for name, target in (("resolv.conf", "/etc/resolv.conf"), ("hosts", "/etc/hosts"),
                                 ("nsswitch.conf", "/etc/nsswitch.conf"), ("tun", "/dev/net/tun"))
        )  # fmt: skip
        script = f'set -e; {mounts}; exec "$@"'
        host = ["nsenter", f"--net=/run/netns/{self.host}", "unshare", "-m", "sh", "-c", script, "sh"]
        return [*host, "setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]

    def end(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        for space in (self.host, self.world):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", space)
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


class Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, world: World, family: socket.AddressFamily, at: tuple[str, int], handler: type[Handler]) -> None:
        self.world = world
        self.address_family = family
        super().__init__(at, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()


class Udp(socketserver.ThreadingUDPServer):
    """Its requests are (data, the address it came to, the ancillary data for the answer, the socket)."""

    daemon_threads = True

    def __init__(self, world: World, family: socket.AddressFamily, at: tuple[str, int], handler: type[Handler]) -> None:
        self.world = world
        self.address_family = family
        super().__init__(at, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            self.socket.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        super().server_bind()

    def get_request(self) -> Any:
        data, extra, _, peer = self.socket.recvmsg(4096, 256)
        at = next(content for _, _, content in extra)
        to = at[8:12] if self.address_family == socket.AF_INET else at[:16]
        return (data, socket.inet_ntop(self.address_family, to), extra, self.socket), peer


class Handler(socketserver.BaseRequestHandler):
    server: Any


class Http(Handler):
    """Answers any request with the address that was asked; `/to/HOST` with a redirect there."""

    def handle(self) -> None:
        at = self.request.getsockname()[0]
        self.server.world.heard.append(("tcp", at))
        head = b""
        while b"\r\n\r\n" not in head:
            part = self.request.recv(65536)
            if not part:
                return
            head += part
        path = head.split(b" ")[1].decode("latin-1")
        more = f"Location: http://{path[4:]}/\r\n" if path.startswith("/to/") else ""
        status = "302 Found" if more else "200 OK"
        body = f"here is {at}\n"
        self.request.sendall(
            f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )


class Echo(Handler):
    """Sends back what it heard."""

    def handle(self) -> None:
        data, to, extra, sock = self.request
        self.server.world.heard.append(("udp", to))
        sock.sendmsg([data], [(level, kind, content) for level, kind, content in extra], 0, self.client_address)


class Names(Handler):
    """A name server: what `names` says of a name at this moment."""

    def handle(self) -> None:
        data, _, extra, sock = self.request
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1").lower())
            at += 1 + data[at]
        name, kind = ".".join(labels), struct.unpack("!H", data[at + 1 : at + 3])[0]
        self.server.world.heard.append(("name", name))
        make = self.server.world.names.get(name)
        answers = [
            self._record(address) for address in (make() if make else []) if (28 if ":" in address else 1) == kind
        ]
        flags = 0x8180 if make else 0x8183
        head = data[:2] + struct.pack("!HHHHH", flags, 1, len(answers), 0, 0)
        sock.sendmsg([head + data[12 : at + 5] + b"".join(answers)], extra, 0, self.client_address)

    @staticmethod
    def _record(address: str) -> bytes:
        family, kind = (socket.AF_INET6, 28) if ":" in address else (socket.AF_INET, 1)
        packed = socket.inet_pton(family, address)
        return struct.pack("!HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed


def worlds() -> Iterator[World]:
    """One world, and its end."""
    world = World()
    try:
        yield world
    finally:
        world.end()
