"""A keep-alive HTTP/1.1 client for small JSON posts: what `http.client` would cost an idle box in memory, this does
not.

Answers must carry Content-Length. Anything else (chunks, a closed connection, rubbish) is an error after which the
next post connects anew.
"""

from __future__ import annotations

import json
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEAD_LIMIT = 32768
BODY_LIMIT = 64 << 20
KEPT = 60.0  # seconds a silent connection is trusted: what lies between may have forgotten it without a word


class Unreachable(Exception):
    """No usable answer came; the request may or may not have been done."""


class Connection:
    """One connection to the control plane at `server`, used by one thread.

    `http://` or `https://` (a path as prefix is kept), or `unix:/path` of a socket on this host.
    """

    def __init__(self, server: str, token: str) -> None:
        self._path = server[len("unix:") :] if server.startswith("unix:") else ""
        if self._path:
            server = "http://localhost"
        scheme, _, rest = server.partition("://")
        self._authority, slash, prefix = rest.partition("/")
        self._prefix = (slash + prefix).rstrip("/")
        self.secure = scheme == "https"
        host, colon, port = self._authority.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = self._authority, "443" if self.secure else "80"
        self._host, self._port = host.strip("[]"), int(port)
        self._token = token
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._used = 0.0

    def post(self, path: str, body: dict[str, Any], timeout: float) -> tuple[int, dict[str, Any]]:
        """Posts `body`; returns the status and the answer's object. `timeout` (seconds) bounds each wait. Raises
        Unreachable.

        A kept connection may have been closed by the other side meanwhile: then the post is sent once more on a new
        one, so what is posted must bear being received twice.
        """
        data = json.dumps(body, separators=(",", ":")).encode()
        head = (
            f"POST {self._prefix}{path} HTTP/1.1\r\nHost: {self._authority}\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        if time.monotonic() - self._used > KEPT:
            self.close()
        kept = self._socket is not None
        try:
            return self._exchange(head.encode() + data, timeout)
        except (OSError, ValueError) as error:
            self.close()
            if not kept or isinstance(error, socket.timeout):
                raise Unreachable(str(error)) from error
        try:
            return self._exchange(head.encode() + data, timeout)
        except (OSError, ValueError) as error:
            self.close()
            raise Unreachable(str(error)) from error

    def connect(self, method: str, path: str, lines: list[str]) -> socket.socket:
        """A connection for one request, whose head was sent: method and path, our token, and these header lines. Raises
        OSError.
        """
        sock = self._connect()
        self._socket = None  # it is the caller's
        head = [f"{method} {self._prefix}{path} HTTP/1.1", f"Host: {self._authority}"]
        head += [f"Authorization: Bearer {self._token}", *lines, "", ""]
        try:
            sock.sendall("\r\n".join(head).encode("ascii"))
        except OSError:
            sock.close()
            raise
        return sock

    def close(self) -> None:
        """Drops the connection; the next post makes another."""
        if self._socket:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def _exchange(self, request: bytes, timeout: float) -> tuple[int, dict[str, Any]]:
        sock = self._socket or self._connect()
        sock.settimeout(timeout)
        sock.sendall(request)
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_LIMIT:
                raise ValueError("an answer's head is too long")
            self._more(sock)
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        version, _, rest = start.partition(" ")
        if not version.startswith("HTTP/1.") or "transfer-encoding" in headers:
            raise ValueError("an answer of a kind this client does not read")
        length = int(headers["content-length"]) if "content-length" in headers else -1
        if not 0 <= length <= BODY_LIMIT:
            raise ValueError("an answer without a usable Content-Length")
        parts, have = [self._buffer], len(self._buffer)
        while have < length:
            part = sock.recv(min(length - have, 1 << 18))
            if not part:
                raise ValueError("an answer ended early")
            parts.append(part)
            have += len(part)
        body = b"".join(parts)
        self._buffer = body[length:]
        if version == "HTTP/1.0" or headers.get("connection", "").lower() == "close":
            self.close()
        self._used = time.monotonic()
        status = int(rest[:3])
        answer = json.loads(body[:length]) if status == 200 else {}
        if not isinstance(answer, dict):
            raise ValueError("an answer that is no JSON object")
        return status, answer

    def _connect(self) -> socket.socket:
        if self._path:
            near = socket.socket(socket.AF_UNIX)
            near.settimeout(10)
            try:
                near.connect(self._path)
            except OSError:
                near.close()
                raise
            self._socket, self._buffer = near, b""
            return near
        # The name as bytes: given as text, Python loads its table of international names for it.
        *_, address = socket.getaddrinfo(self._host.encode("ascii"), self._port, 0, socket.SOCK_STREAM)[0]
        sock = socket.create_connection((str(address[0]), self._port), timeout=10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.secure:
            import ssl  # some MiB: only where the control plane is far away

            sock = ssl.create_default_context().wrap_socket(sock, server_hostname=self._host)
        self._socket, self._buffer = sock, b""
        return sock

    def _more(self, sock: socket.socket) -> None:
        part = sock.recv(65536)
        if not part:
            raise ValueError("the connection was closed")
        self._buffer += part
