"""The agent's door: what a jail asks goes to the control plane as the agent's own, streamed, and nothing else does."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box
from tests.conformance.agent.plane import TOKEN, tail

from rift_agent import door, served
from rift_agent.config import Config

MIB = 1 << 20
REFS = "/git/acme/app.git/info/refs?service=git-upload-pack"
ASK = """
import http.client, sys
http.client._MAXHEADERS = 1000
def ask(method, path, body=None, headers={}, **more):
    c = http.client.HTTPConnection("127.0.0.1", 3127, timeout=60)
    c.request(method, path, body, headers, **more)
    r = c.getresponse()
    return r.status, r.read().decode()
"""


class Far:
    """What the door's requests come to: whole heads, sizes and digests of bodies; it answers what a test says."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "far.sock"
        self.heads: list[str] = []
        self.bodies: list[tuple[int, str]] = []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        self.slow = threading.Event()
        self.slow.set()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.path))
        self.path.chmod(0o666)
        self._socket.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as file, contextlib.suppress(BrokenOff, ConnectionError):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = file.readline()
                if not line:
                    return
                head += line
            text = head.decode()
            if "/door/" not in text.partition("\r\n")[0]:  # the agent's own requests: nothing to do
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                return
            self.slow.wait(60)
            digest, size = hashlib.sha256(), 0
            for part in parts(file, text.lower()):
                digest.update(part)
                size += len(part)
            self.heads.append(text)
            self.bodies.append((size, digest.hexdigest()))
            client.sendall(self.answer)


class BrokenOff(Exception):
    """Whoever asked went away before the end of their body."""


def parts(file: Any, head: str) -> Iterator[bytes]:
    """A request's body, whole. Raises BrokenOff."""
    if "transfer-encoding: chunked" in head:
        while size := int(whole_line(file), 16):
            yield from exactly(file, size)
            assert whole_line(file) == b"\r\n"
        assert whole_line(file) == b"\r\n"
        return
    length = next((int(text.split(":")[1]) for text in head.splitlines() if text.startswith("content-length")), 0)
    yield from exactly(file, length)


def whole_line(file: Any) -> bytes:
    text: bytes = file.readline()
    if not text.endswith(b"\n"):
        raise BrokenOff
    return text


def exactly(file: Any, size: int) -> Iterator[bytes]:
    while size:
        part = file.read(min(size, MIB))
        if not part:
            raise BrokenOff
        size -= len(part)
        yield part


@pytest.fixture
def far() -> Iterator[Far]:
    folder = Path(tempfile.mkdtemp(prefix="rift-far-"))
    folder.chmod(0o755)
    made = Far(folder)
    yield made
    made.close()


def ask(box: Box, code: str) -> str:
    said = box.plane.run(f"python3 - <<'EOF'\n{ASK}{code}\nEOF")
    return tail(said).decode()


@pytest.mark.parametrize("network", ["none", "proxy"])
def test_the_door_is_there_in_every_network_and_knows_its_requests_alone(
    make_box: Callable[..., Box], network: str
) -> None:
    box = make_box(network=network).start().ready()
    said = ask(box, f"print(*ask('GET', '/')); print(*ask('GET', '{REFS}')); print(*ask('POST', '/work', b'x'))")
    lines = [line for line in said.splitlines() if line.strip()]
    assert lines[0] == lines[-1] == "404 Rift's door knows no such request. `verbs` lists what can be asked for."
    assert "Unsupported method" in said  # the plane's own answer: it was asked


def test_nothing_else_in_the_jail_takes_the_doors_port(box: Box) -> None:
    code = (
        "import socket\nfor kind in ('127.0.0.1', '0.0.0.0'):\n s = socket.socket()\n"
        " s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        " try: s.bind((kind, 3127)); s.listen(1); print('taken')\n except OSError as e: print('no')\n"
    )
    assert ask(box, code).split() == ["no", "no"]


def test_a_request_goes_on_as_the_agents_own(make_box: Callable[..., Box], far: Far) -> None:
    box = make_box(server=f"unix:{far.path}")
    with Relayed(box, far) as run:
        said = run(
            f"print(*ask('GET', '{REFS}', headers={{'Git-Protocol': 'version=2', 'Authorization': 'Bearer mine',"
            "'X-Evil': 'y', 'Cookie': 'c'}))"
        )
    assert said.strip() == "200 ok"
    (head,) = far.heads
    lines = head.splitlines()
    assert lines[0] == f"GET /agent/v1/{box.config['box']}/1/door{REFS} HTTP/1.1"
    assert f"Authorization: Bearer {TOKEN}" in lines
    assert "git-protocol: version=2" in lines
    assert "mine" not in head
    assert "Evil" not in head
    assert "Cookie" not in head


class Relayed:
    """The agent's door code at work in this process, between a client and `far`: what a jail would meet."""

    def __init__(self, box: Box, far: Far) -> None:
        self._config = Config(json.loads(json.dumps(box.config)))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stop = False

    def _serve(self, client: socket.socket, full: bool) -> None:
        door.serve(client, self._config, full=full)

    def __enter__(self) -> Callable[[str], str]:
        port = self._listener.getsockname()[1]
        self._listener.settimeout(0.2)

        def accept() -> None:
            while not self._stop:
                try:
                    client, _ = self._listener.accept()
                except TimeoutError:
                    continue
                except OSError:
                    return
                threading.Thread(target=served.serve_whole, args=(client, self._serve), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()

        def run(code: str) -> str:
            out = io.StringIO()
            text = ASK.replace('"127.0.0.1", 3127', f'"127.0.0.1", {port}').replace(
                "c.request(method, path, body, headers, **more)",
                "c.request(method, path, body, {'Host': '127.0.0.1:3127', **headers}, **more)",
            )
            with contextlib.redirect_stdout(out):
                exec(text + code, {"__name__": "jail"})
            return out.getvalue()

        self.port = port
        return run

    def __exit__(self, *_: object) -> None:
        self._stop = True
        self._listener.close()


PUSH = "/git/acme/app.git/git-receive-pack"


@pytest.mark.parametrize("chunked", [True, False])
def test_half_a_gigabyte_passes_whole_and_the_agent_does_not_grow(
    make_box: Callable[..., Box], far: Far, chunked: bool
) -> None:
    box = make_box(server=f"unix:{far.path}")
    size = 500 * MIB
    piece = bytes(range(256)) * 4096
    before, most = 0, 0

    def send(port: int) -> bytes:
        nonlocal before, most
        with socket.create_connection(("127.0.0.1", port)) as client:
            framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
            head = f"POST {PUSH} HTTP/1.1\r\nHost: 127.0.0.1:3127\r\nExpect: 100-continue\r\n{framing}\r\n\r\n"
            client.sendall(head.encode())
            file = client.makefile("rb")
            assert file.readline().startswith(b"HTTP/1.1 100")
            file.readline()
            before = memory()
            for _ in range(size // len(piece)):
                client.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                most = max(most, memory())
            if chunked:
                client.sendall(b"0\r\n\r\n")
            return file.read()

    work = Relayed(box, far)
    with work:
        assert send(work.port).endswith(b"\r\n\r\nok")
    expected = hashlib.sha256()
    for _ in range(size // len(piece)):
        expected.update(piece)
    assert far.bodies == [(size, expected.hexdigest())]
    assert most - before < 24 * MIB


def memory() -> int:
    """What this process has in memory, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_side_that_does_not_take_makes_the_other_wait(make_box: Callable[..., Box], far: Far) -> None:
    box = make_box(server=f"unix:{far.path}")
    far.slow.clear()
    work = Relayed(box, far)
    with work, socket.create_connection(("127.0.0.1", work.port)) as client:
        client.sendall(f"POST {PUSH} HTTP/1.1\r\nHost: 127.0.0.1:3127\r\nContent-Length: {64 * MIB}\r\n\r\n".encode())
        client.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 * MIB:
                sent += client.send(b"x" * 65536)
        assert sent < 32 * MIB
        far.slow.set()
        client.settimeout(30)
        while sent < 64 * MIB:
            sent += client.send(b"x" * min(65536, 64 * MIB - sent))
        assert client.makefile("rb").read().endswith(b"ok")


@pytest.mark.parametrize(
    "raw",
    [
        b"POST " + PUSH.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1:3127\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /x HTTP/1.1\r\n\r\n",
        b"POST " + PUSH.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1:3127\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET " + REFS.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1:3127\r\nX: a\nAuthorization: Bearer x\r\n\r\n",
        b"GET " + REFS.encode() + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /git/acme/../../../work HTTP/1.1\r\nHost: 127.0.0.1:3127\r\n\r\n",
    ],
)
def test_what_could_be_read_in_two_ways_never_arrives(make_box: Callable[..., Box], far: Far, raw: bytes) -> None:
    box = make_box(server=f"unix:{far.path}")
    work = Relayed(box, far)
    with work, socket.create_connection(("127.0.0.1", work.port)) as client:
        client.sendall(raw)
        client.settimeout(20)
        answer = client.makefile("rb").read()
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 404"))
    assert far.bodies == []


def test_without_a_control_plane_the_door_says_so(make_box: Callable[..., Box], far: Far) -> None:
    box = make_box(server="unix:/nowhere/agents.sock")
    with Relayed(box, far) as run:
        said = run(f"print(*ask('GET', '{REFS}'))")
    assert said.strip() == "502 Rift cannot be reached at this moment. Try again in a minute."


def test_an_answer_that_never_began_is_told_as_unknown(make_box: Callable[..., Box], far: Far) -> None:
    box = make_box(server=f"unix:{far.path}")
    far.answer = b""
    with Relayed(box, far) as run:
        said = run(f"print(*ask('POST', '{PUSH}', b'x'))")
    assert said.strip() == "502 Rift went away before it answered. Look what was done, try again."
