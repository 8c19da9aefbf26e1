"""The head of one proxy request, read strictly: what two programs could read in two ways is refused."""

from __future__ import annotations

from rift_agent.served import Refusal

PORTS = (80, 443)
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._:")
_HOP = {"connection", "proxy-connection", "proxy-authorization", "proxy-authenticate", "keep-alive", "te", "trailer",
        "upgrade", "host"}  # fmt: skip


class Request:
    """Where it goes, and what is sent there first: `head` (b"" for a tunnel), then `length` bytes of the client's
    body.
    """

    def __init__(self, host: str, port: int, head: bytes, length: int) -> None:
        self.host = host
        self.port = port
        self.head = head
        self.length = length

    @property
    def tunnel(self) -> bool:
        """Whether it is a CONNECT."""
        return not self.head


def parse(raw: bytes) -> Request:
    """The request whose head these bytes are, up to and without the blank line. Raises Refusal."""
    start, *lines = raw.decode("latin-1").split("\r\n")
    parts = start.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0") or not set(parts[0]) <= _TOKEN or not parts[0]:
        raise _bad("its first line is not one of a proxy request")
    if any(not "!" <= letter <= "~" for letter in parts[1]):
        raise _bad("its address holds a character it may not")
    headers = [_header(line) for line in lines]
    if parts[0] == "CONNECT":
        host, port = _authority(parts[1], None)
        return Request(host, port, b"", 0)
    scheme, found, rest = parts[1].partition("://")
    if not found or scheme.lower() != "http":
        raise _bad("only http:// addresses and CONNECT are served here")
    cut = min((rest.index(mark) for mark in "/?#" if mark in rest), default=len(rest))
    authority, path = rest[:cut], rest[cut:].partition("#")[0]
    host, port = _authority(authority, 80)
    length = _length(headers)
    named = {name.strip().lower() for key, value in headers if key.lower() == "connection" for name in value.split(",")}
    kept = [(key, value) for key, value in headers if key.lower() not in _HOP | named | {"content-length"}]
    lines = [f"{parts[0]} {path if path.startswith('/') else '/' + path} HTTP/1.1", f"Host: {authority}"]
    lines += [f"{key}: {value}" for key, value in kept]
    if any(key.lower() == "content-length" for key, _ in headers):
        lines.append(f"Content-Length: {length}")
    lines.append("Connection: close")
    return Request(host, port, "\r\n".join([*lines, "", ""]).encode("latin-1"), length)


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    value = value.strip(" \t")
    if not colon or not name or not set(name) <= _TOKEN or any(letter in value for letter in "\r\n\0"):
        raise _bad("a header is malformed")
    return name, value


def _length(headers: list[tuple[str, str]]) -> int:
    if any(key.lower() == "transfer-encoding" for key, _ in headers):
        raise Refusal(
            "411 Length Required",
            "A request through Rift's proxy needs a Content-Length; it may not be chunked.",
            "malformed",
        )
    lengths = {value for key, value in headers if key.lower() == "content-length"}
    if not lengths:
        return 0
    value = lengths.pop()
    if lengths or not (value.isascii() and value.isdigit() and len(value) < 16):
        raise _bad("its Content-Length is malformed")
    return int(value)


def _authority(text: str, default: int | None) -> tuple[str, int]:
    """(host, port); the host in lower case without brackets or a last dot."""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise _bad("its address is malformed")
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    host = host.lower()
    host = host[:-1] if host.endswith(".") else host
    if not host or len(host) > 253 or not set(host) <= _HOST or (":" in host) != text.startswith("["):
        raise _bad("its host is malformed (an international name is written as xn--…)")
    if "" in host.split("."):
        raise _bad("its host has an empty part")
    if not port and default is not None:
        return host, default
    if not (port.isascii() and port.isdigit() and len(port) < 6):
        raise _bad("its port is malformed")
    return host, int(port)


def _bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", f"Rift's proxy does not take this request: {why}.", "malformed")
