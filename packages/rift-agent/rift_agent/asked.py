"""The head of one request at the door, read strictly: what two programs could read in two ways is refused, and what the
door does not know goes no further. Nothing of what the jail wrote is passed on but what is taken here by name.
"""

from __future__ import annotations

import re

from rift_agent.served import Refusal

PORT = 3127
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HOSTS = (f"127.0.0.1:{PORT}", f"localhost:{PORT}")
_PART = r"[A-Za-z0-9_.-]{1,100}"
_GIT = rf"/git/{_PART}/{_PART}"
_WAYS = (  # methods, and the path they go with
    (("GET",), re.compile(rf"{_GIT}/info/refs\?service=git-(upload|receive)-pack")),
    (("POST",), re.compile(rf"{_GIT}/git-(upload|receive)-pack")),
    (("POST",), re.compile(rf"{_GIT}/info/lfs/(objects/batch|locks/verify|locks/[A-Za-z0-9-]{{1,100}}/unlock)")),
    (("GET", "POST"), re.compile(rf"{_GIT}/info/lfs/locks(\?[A-Za-z0-9_.~%=&+/-]{{0,1000}})?")),
    (("GET", "PUT", "POST"), re.compile(r"/lfs/[A-Za-z0-9_-]{1,8000}")),
    (("POST",), re.compile(r"/verbs/[a-z-]{1,40}")),
)
_KEPT = {  # the headers that go on, each with what it may say
    "accept": re.compile(r"[A-Za-z0-9/.+*;=, -]{1,200}"),
    "content-type": re.compile(r"[A-Za-z0-9/.+;= -]{1,200}"),
    "content-encoding": re.compile(r"gzip|identity"),
    "git-protocol": re.compile(r"[A-Za-z0-9=:.-]{1,100}"),
}


class Asked:
    """What the jail asks: `method`, `path` and `lines` of the headers that go on. Of its body `length` bytes follow; -1
    where it comes in chunks. `expects`: it waits to be told to send it.
    """

    def __init__(self, method: str, path: str, lines: list[str], length: int, expects: bool) -> None:
        self.method = method
        self.path = path
        self.lines = lines
        self.length = length
        self.expects = expects


def parse(raw: bytes) -> Asked:
    """The request whose head these bytes are, up to and without the blank line. Raises Refusal."""
    start, *lines = raw.decode("latin-1").split("\r\n")
    parts = start.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise _bad("its first line is not one of HTTP/1.1")
    method, path = parts[0], parts[1]
    headers = [_header(line) for line in lines]
    named: dict[str, str] = {}
    for name, value in headers:
        if name in named and name in (*_KEPT, "content-length", "transfer-encoding", "host", "expect"):
            raise _bad(f"it has {name} twice")
        named[name] = value
    if named.get("host") not in _HOSTS or "origin" in named or "sec-fetch-site" in named:
        # A page in a browser of the box may send requests to the box's own loopback; it speaks for nobody.
        raise Refusal("403 Forbidden", "Rift's door is for git and the verbs of this box, not for pages.")
    if ".." in path or not any(method in methods and way.fullmatch(path) for methods, way in _WAYS):
        raise Refusal("404 Not Found", "Rift's door knows no such request. `verbs` lists what can be asked for.")
    kept = []
    for name, what in _KEPT.items():
        if name in named:
            if not what.fullmatch(named[name]):
                raise _bad(f"its {name} is of no kind that is known here")
            kept.append(f"{name}: {named[name]}")
    length = _length(named)
    if method == "GET" and length:
        raise _bad("a GET has no body")
    if "expect" in named and named["expect"].lower() != "100-continue":
        raise Refusal("417 Expectation Failed", "Rift's door knows no such expectation.")
    return Asked(method, path, kept, length, "expect" in named and parts[2] == "HTTP/1.1")


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    value = value.strip(" \t")
    if not colon or not name or not set(name) <= _TOKEN or any(ord(letter) < 32 and letter != "\t" for letter in value):
        raise _bad("a header is malformed")
    return name.lower(), value


def _length(named: dict[str, str]) -> int:
    coding, value = named.get("transfer-encoding"), named.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or value is not None:
            raise _bad("how long its body is can be read in two ways")
        return -1
    if value is None:
        return 0
    if not (value.isascii() and value.isdigit() and len(value) < 16):
        raise _bad("its Content-Length is malformed")
    return int(value)


def _bad(why: str) -> Refusal:
    return Refusal("400 Bad Request", f"Rift's door does not take this request: {why}.")


class Chunks:
    """Takes the chunks of a body apart and puts them together anew. `done` once the last has come."""

    def __init__(self) -> None:
        self.done = False
        self._held = b""  # a line that has not come to its end
        self._left = 0  # bytes of the chunk that are still to come, with the line break after it

    def feed(self, data: bytes) -> bytes:
        """What goes on for these bytes, as chunks. Raises ValueError for what is no chunk."""
        data, out = self._held + data, []
        self._held = b""
        at = 0
        while at < len(data) and not self.done:
            if self._left > 2:
                part = data[at : at + self._left - 2]
                out.append(b"%x\r\n%b\r\n" % (len(part), part))
                at += len(part)
                self._left -= len(part)
            elif self._left:
                if data[at] != b"\n\r"[self._left - 1]:
                    raise ValueError("a chunk is longer than it says")
                at += 1
                self._left -= 1
            else:
                end = data.find(b"\r\n", at)
                line = data[at:] if end < 0 else data[at:end]
                if len(line) > 9:
                    raise ValueError("a chunk's size is malformed")
                if end < 0:
                    self._held = line
                    break
                at = self._sized(line, end + 2, data)
        if self.done:
            out.append(b"0\r\n\r\n")
        return b"".join(out)

    def _sized(self, line: bytes, at: int, data: bytes) -> int:
        """Takes the line of a chunk's size; where the chunk begins."""
        if not line or len(line) > 8 or not set(line) <= set(b"0123456789abcdefABCDEF"):
            raise ValueError("a chunk's size is malformed")
        size = int(line, 16)
        if size:
            self._left = size + 2
        elif data[at : at + 2] == b"\r\n":
            self.done = True
            return at + 2
        elif len(data) < at + 2:
            self._held = data[at - len(line) - 2 :]  # once more, when its end is here
            return len(data)
        else:
            raise ValueError("a body with trailers is not taken here")
        return at
