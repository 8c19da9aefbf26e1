"""The agent's smaller parts: its files' judgement, its HTTP client, its filter, its archive."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rift_agent
from rift_agent import files, seccomp
from rift_agent.config import BadConfig, Config, load
from rift_agent.http import Connection, Unreachable


@given(st.text(max_size=50).filter(lambda text: "\0" not in text), st.integers(0, 3))
def test_text_is_text_also_when_its_last_character_is_cut(text: str, cut: int) -> None:
    data = text.encode()
    assert files.is_text(data[: len(data) - cut] if cut < 3 and data[-1:] >= b"\x80" else data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", True),
        (b"caf\xe9\n", True),
        (b"\x1b[1mbold", True),
        (b"a\0b", False),
        (b"\xff\x01\x02", False),
        (b"\xff" * 9, True),
    ],
)
def test_bytes_are_told_from_text(data: bytes, text: bool) -> None:
    assert files.is_text(data) is text


def serve(*answers: bytes, wrap: ssl.SSLContext | None = None) -> str:
    """A server that gives these bytes, one for each connection, and then closes it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener:
            for answer in answers:
                sock, _ = listener.accept()
                with suppress(OSError), sock, wrap.wrap_socket(sock, server_side=True) if wrap else sock as spoken:
                    spoken.recv(65536)
                    spoken.sendall(answer)

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def good(body: bytes = b'{"a":1}', more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n%s\r\n" % (len(body), more) + body


def test_an_answer_is_read_and_a_connection_closed_meanwhile_is_made_anew() -> None:
    connection = Connection(serve(good(), good(b'{"b":2}')), "token")
    assert connection.post("/x", {}, 5) == (200, {"a": 1})
    assert connection.post("/x", {}, 5) == (200, {"b": 2})


def test_another_status_has_no_object() -> None:
    assert Connection(serve(b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nover"), "t").post("/x", {}, 5) == (410, {})


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n", good()[:-1], good(b"[1]"), good(b"rubbish"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"x" * 70000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error_and_never_another_one(answer: bytes) -> None:
    with pytest.raises(Unreachable):
        Connection(serve(answer), "t").post("/x", {}, 5)


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(Unreachable):
        Connection("http://127.0.0.1:1", "t").post("/x", {}, 5)


@pytest.mark.skipif(not shutil.which("openssl"), reason="a certificate is made by openssl")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_far_away_is_spoken_to_encrypted_and_only_if_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    port = int(serve(good(), wrap=context).rpartition(":")[2])
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    connection = Connection(f"https://localhost:{port}", "t")
    if trusted:
        assert connection.post("/x", {}, 5) == (200, {"a": 1})
    else:
        with pytest.raises(Unreachable):
            connection.post("/x", {}, 5)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_whole_and_its_jumps_stay_inside(machine: str) -> None:
    code = seccomp.program(machine)
    assert code is not None
    assert len(code) % 8 == 0
    steps = len(code) // 8
    for at in range(steps):
        step = code[at * 8 : at * 8 + 8]
        if int.from_bytes(step[:2], sys.byteorder) & 7 == 5:  # a jump
            assert at + 1 + max(step[2], step[3]) < steps


def test_a_machine_without_a_table_has_no_filter() -> None:
    assert seccomp.program("pdp11") is None


WHOLE = {
    "box": "b-1", "incarnation": 1, "server": "http://127.0.0.1:1/", "token_file": "/x", "mounts": [], "checkout": "/x",
}  # fmt: skip


@pytest.mark.parametrize("key", sorted(WHOLE))
def test_a_missing_key_is_named(key: str) -> None:
    values = {"dir": "/x", **WHOLE}
    del values[key]
    with pytest.raises(BadConfig, match=key):
        Config(values)


@pytest.mark.parametrize("mount", [{}, {"kind": "bind", "source": "/", "target": "/"}, {"kind": "ro", "target": "/x"}])
def test_a_mount_that_is_not_whole_is_refused(mount: dict[str, str]) -> None:
    with pytest.raises(BadConfig, match="mount"):
        Config({"dir": "/x", **WHOLE, "mounts": [mount]})


def test_a_configuration_without_a_folder_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "agent.json").write_text(json.dumps(WHOLE))
    assert load(str(tmp_path / "agent.json")).dir == str(tmp_path)
    (tmp_path / "agent.json").write_text("[]")
    with pytest.raises(BadConfig):
        load(str(tmp_path / "agent.json"))


def test_the_archive_is_uncompressed_and_equal_sources_give_equal_archives(tmp_path: Path) -> None:
    one = rift_agent.build(tmp_path / "one.pyz")
    other = rift_agent.build(tmp_path / "other.pyz")
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        assert {info.compress_type for info in a.infolist()} == {zipfile.ZIP_STORED}
        assert {i.filename: i.CRC for i in a.infolist()} == {i.filename: i.CRC for i in b.infolist()}


HEAVY = (
    "ssl",
    "asyncio",
    "subprocess",
    "http.client",
    "email",
    "dataclasses",
    "typing",
    "inspect",
    "threading",
    "ipaddress",
)


def test_the_agent_imports_nothing_heavy_and_nothing_of_ours(tmp_path: Path) -> None:
    archive = rift_agent.build(tmp_path / "agent.pyz")
    text = "import rift_agent.agent, rift_agent.init; print(*sys.modules)"
    text = f"import sys; sys.path.insert(0, {str(archive)!r}); {text}"
    words = ["/usr/bin/python3", "-I", "-S", "-c", text]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert not set(said) & {*HEAVY, "keel", "rift", "ctypes"}
    assert "rift_agent.agent" in said


def test_a_wrong_call_says_how(tmp_path: Path) -> None:
    archive = rift_agent.build(tmp_path / "agent.pyz")
    done = subprocess.run(["/usr/bin/python3", "-I", "-S", str(archive)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("usage:")
