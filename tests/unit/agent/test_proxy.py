"""The proxy's judgement and its bytes, without a jail."""

from __future__ import annotations

import functools
import ipaddress
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.conformance.agent.boxes import eventually

from rift_agent import dial, proxy, served
from rift_agent.addresses import barred, listed
from rift_agent.config import Config
from rift_agent.served import Refusal

V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str)


@given(V4)
@example("100.64.0.1")
@example("192.88.99.1")
def test_no_address_but_public_ones_passes(address: str) -> None:
    number = ipaddress.IPv4Address(address)
    local = (
        number.is_private or number.is_loopback or number.is_link_local or number.is_multicast or number.is_reserved
        or number.is_unspecified or not number.is_global
    )  # fmt: skip
    if local:
        assert barred(address)
    elif not any(number in ipaddress.ip_network(network) for network in ("192.88.99.0/24", "192.0.0.0/24")):
        assert barred(address) == ""


@given(V6)
@example("2001:db8::1")
@example("fe80::1%eth0")
@example("2001:0:1::1")
@example("fd00:ec2::254")
@example("2002:b00::")
def test_no_sixth_version_address_but_public_ones_passes(address: str) -> None:
    number = ipaddress.IPv6Address(address.partition("%")[0])
    if not number.is_global or number.is_multicast or number.is_link_local or number.is_site_local:
        assert barred(address)
    elif barred(address) == "":
        assert number in ipaddress.ip_network("2000::/3") or number.ipv4_mapped or address.startswith("64:ff9b:")


@given(V4)
@example("127.0.0.1")
@example("169.254.169.254")
@example("8.8.8.8")
def test_an_address_in_another_is_judged_as_itself(address: str) -> None:
    number = int(ipaddress.IPv4Address(address))
    carriers = ((0xFFFF << 32) + number, (0x64FF9B << 96) + number)
    for carrier in carriers:
        assert barred(str(ipaddress.IPv6Address(carrier))) == barred(address)


@given(st.text(max_size=40))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert isinstance(barred(text), str)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("pypi.org", True), ("files.pythonhosted.org", True), ("a.b.pythonhosted.org", True),
        ("pythonhosted.org", False), ("evilpythonhosted.org", False), ("pypi.org.evil.example", False),
        (".pythonhosted.org", False), ("xpypi.org", False), ("", False),
    ],
)  # fmt: skip
def test_an_allow_list_allows_what_it_says(host: str, allowed: bool) -> None:
    assert listed(host, ["pypi.org", "*.PythonHosted.org."]) is allowed


def config(*allow: str) -> Config:
    return Config(
        {
            "box": "b-1", "incarnation": 1, "server": "http://127.0.0.1:1", "token_file": "/x", "dir": "/x",
            "mounts": [], "checkout": "/x", "network": "proxy", "allow": list(allow), "repository": "app",
            "named": "acme/app",
        }
    )  # fmt: skip


Noted = list[tuple[str, int, str]]


def exchange(
    sent: bytes, dial: Callable[[str, int], socket.socket], *allow: str, noted: Noted | None = None, full: bool = False
) -> bytes:
    def note(host: str, port: int, why: str) -> None:
        if noted is not None:
            noted.append((host, port, why))

    client, ours = socket.socketpair()
    client.settimeout(20)

    def serve() -> None:
        with ours:
            proxy.serve(ours, config(*allow), dial, note, full=full)

    thread = threading.Thread(target=serve)
    thread.start()
    client.sendall(sent)
    client.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: client.recv(65536), b""))
    thread.join(20)
    client.close()
    return answer


def no_dial(host: str, port: int) -> socket.socket:
    raise AssertionError("nothing may be connected")


def test_a_host_that_is_not_listed_is_never_connected_to() -> None:
    answer = exchange(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n", no_dial, "good.example")
    sentence = (
        b"evil.example is not on the allow list of the repository acme/app. "
        b"Ask an admin of its organization for: rift repo network acme/app --allow evil.example"
    )
    assert answer.startswith(b"HTTP/1.1 403 " + sentence + b"\r\n")
    assert answer.endswith(b"\r\n\r\n" + sentence + b"\n")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "2130706433"]
)
def test_a_listed_name_of_the_host_itself_is_refused_by_its_address(host: str) -> None:
    def public(name: str, port: int) -> socket.socket:
        return dial.dial_public(name, port, [])

    answer = exchange(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode(), public, host.strip("[]"))
    assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 502")


def test_a_tunnel_carries_a_mebibyte_both_ways() -> None:
    far, near = socket.socketpair()
    data = bytes(range(256)) * 4096

    def echo() -> None:
        with far:
            got = b"".join(iter(lambda: far.recv(65536), b""))
            far.sendall(got)

    thread = threading.Thread(target=echo)
    thread.start()
    answer = exchange(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n" + data, lambda host, port: near, "a.example")
    thread.join(20)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + data


def test_bytes_after_the_body_never_leave_the_jail() -> None:
    far, near = socket.socketpair()
    sent = b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 4\r\n\r\nbodyGET http://a.example/2 HTTP/1.1\r\n\r\n"
    got: list[bytes] = []

    def answer() -> None:
        with far:
            got.append(far.recv(65536))
            far.sendall(b"HTTP/1.1 200 OK\r\n\r\nhi")

    thread = threading.Thread(target=answer)
    thread.start()
    said = exchange(sent, lambda host, port: near, "a.example")
    thread.join(20)
    assert got[0].endswith(b"\r\n\r\nbody")
    assert said == b"HTTP/1.1 200 OK\r\n\r\nhi"


def test_a_head_without_end_is_refused() -> None:
    answer = exchange(b"CONNECT a.example:443 HTTP/1.1\r\nX: " + b"x" * 70000, no_dial, "a.example")
    assert answer.startswith(b"HTTP/1.1 431 The request's head is too long.\r\n")


TURNED = [
    (b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n", ("evil.example", 443, "not_listed")),
    (b"GET http://evil.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", ("evil.example", 80, "not_listed")),
    (b"CONNECT a.example:22 HTTP/1.1\r\n\r\n", ("a.example", 22, "bad_port")),
    (b"GET http://a.example:8080/ HTTP/1.1\r\n\r\n", ("a.example", 8080, "bad_port")),
    (b"nonsense\r\n\r\n", ("", 0, "malformed")),
    (b"POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", ("", 0, "malformed")),
    (b"x" * 70000, ("", 0, "malformed")),
]


@pytest.mark.parametrize(("sent", "told"), TURNED)
def test_each_refusal_is_told_with_what_was_asked_for(sent: bytes, told: tuple[str, int, str]) -> None:
    noted: Noted = []
    answer = exchange(sent, no_dial, "a.example", noted=noted)
    assert answer[9:12] in (b"400", b"403", b"411", b"431")
    assert noted == [told]


def test_what_only_failed_is_no_refusal_of_ours() -> None:
    noted: Noted = []

    def away(host: str, port: int) -> socket.socket:
        raise Refusal("502 Bad Gateway", f"{host} cannot be reached.")

    assert exchange(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", away, "a.example", noted=noted).startswith(
        b"HTTP/1.1 502 "
    )
    assert noted == []


def test_a_connection_too_many_is_told_why() -> None:
    noted: Noted = []
    answer = exchange(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", no_dial, "a.example", noted=noted, full=True)
    assert answer.startswith(b"HTTP/1.1 503 All 128 connections ")
    assert noted == [("a.example", 443, "busy")]


def test_a_head_that_comes_byte_by_byte_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "HEAD_PATIENCE", 0.2)
    monkeypatch.setattr(served, "HEAD_LIMIT", 1 << 30)
    noted: Noted = []
    client, ours = socket.socketpair()

    def serve() -> None:
        with ours, suppress(ConnectionResetError):
            proxy.serve(ours, config(), no_dial, lambda *one: noted.append(one))

    thread = threading.Thread(target=serve)
    thread.start()
    with client:
        client.settimeout(20)
        while not noted:
            client.sendall(b"x")
        assert client.recv(100).startswith(b"HTTP/1.1 408 The request's head came too slowly.\r\n")
    thread.join(20)
    assert noted == [("", 0, "too_slow")]


def test_what_an_answer_repeats_of_others_makes_no_line_of_its_own() -> None:
    def refuse(host: str, port: int) -> socket.socket:
        raise Refusal("502 Bad Gateway", "the host's own proxy said: 407 no\nX-Evil: 1\r\n\r\nbody")

    answer = exchange(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", refuse, "a.example")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert len(head.split(b"\r\n")) == 5
    assert b"\n" not in head.replace(b"\r\n", b"")
    assert body == b"the host's own proxy said: 407 no?X-Evil: 1????body\n"


SPELLINGS = [
    "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "10.1",
    "169.254.43518", "0xa9fea9fe", "3232235777", "[::1]", "[::]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]",
    "[64:ff9b::a00:1]", "[fd00:ec2::254]", "[::127.0.0.1]", "localhost", "a.localhost", "localhost.localdomain",
]  # fmt: skip


@pytest.mark.parametrize("host", SPELLINGS)
@pytest.mark.parametrize("upstream", [False, True])
def test_no_spelling_of_a_barred_address_is_connected_to(host: str, upstream: bool) -> None:
    """Listed by mistake, straight or through the host's own proxy (which has nothing to answer with here)."""

    def way(name: str, port: int) -> socket.socket:
        out = dial.dial_through("http://127.0.0.1:1", []) if upstream else functools.partial(dial.dial_public, reach=[])
        return out(name, port)

    noted: Noted = []
    for dot in ("", ".") if not host.startswith("[") else ("",):
        answer = exchange(f"CONNECT {host}{dot}:443 HTTP/1.1\r\n\r\n".encode(), way, host.strip("[]"), noted=noted)
        if host in ("a.localhost", "localhost.localdomain") and answer[9:12] == b"502":
            continue  # this host's resolver does not know it
        assert answer[9:12] == b"403", answer
        assert noted.pop() == (host.strip("[]"), 443, "private_address")


def test_a_network_that_the_settings_open_is_open_in_every_spelling_and_no_other() -> None:
    opened, other = (dial.dial_through("http://127.0.0.1:1", [network]) for network in ("10.1.0.0/16", "10.2.0.0/16"))
    for host in ("10.1.0.9", "0xa.1.9", "167837705"):
        with pytest.raises(Refusal, match="the host's own proxy cannot be reached"):
            opened(host, 443)
        with pytest.raises(Refusal, match="private"):
            other(host, 443)


def test_the_proxy_itself_says_what_it_refused_lately() -> None:
    """To an agent whose curl or git said no more than 403: each sentence once, the oldest forgotten."""
    for host in (*(f"{number}.example" for number in range(20)), "19.example"):
        exchange(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode(), no_dial)
    for asked in ("/", "http://127.0.0.1:3128/"):
        said = exchange(f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n".encode(), no_dial).decode()
        assert said.startswith("HTTP/1.1 200 OK\r\n")
        lines = said.splitlines()
        assert [line.split()[1] for line in lines if line.startswith("- ")] == [f"{n}.example" for n in range(4, 20)]
        assert lines[-1].endswith("rift repo network acme/app --allow 19.example")


def test_beyond_its_places_a_connection_is_told_so_and_beyond_those_closed() -> None:
    """Idle connections hold places; none is lost when they are gone."""
    noted: Noted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)

        def connect() -> socket.socket:
            client = socket.create_connection(listener.getsockname(), 20)
            taken = proxy.places.taken
            while proxy.places.taken == taken and not noted:
                proxy.accept(listener.fileno(), config(), lambda *one: noted.append(one))
            return client

        held = [connect() for _ in range(proxy.MOST)]
        told = connect()
        told.sendall(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
        assert told.recv(100).startswith(b"HTTP/1.1 503 All 128 connections")
        assert noted.pop() == ("a.example", 443, "busy")
        held += [connect() for _ in range(proxy.TURNED_AWAY - 1)]
        with connect() as closed:
            assert closed.recv(100) == b""
        assert noted == [("", 0, "busy")]
        for client in (told, *held):
            client.close()
    eventually(lambda: proxy.places.taken == 0)
