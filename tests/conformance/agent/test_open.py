"""An open network, in a world of the test's: the public internet is reached, and nothing private by any means."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.agent.boxes import Box, eventually
from tests.conformance.agent.plane import Plane
from tests.conformance.agent.world import (
    HOST,
    HOST_6,
    HOST_OTHER,
    PRIVATE,
    PUBLIC,
    PUBLIC_6,
    RESOLVER,
    World,
)

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make network namespaces"),
    pytest.mark.needs("pasta", "nft", "ip"),
]
NFT = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") or "nft"
PASTA = shutil.which("pasta") or "pasta"

TRY = r"""
import json, socket, struct, sys
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(64)
def tcp(address, bind=None):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(4)
        if bind:
            sock.setsockopt(socket.SOL_SOCKET, 25, bind)
        sock.connect((address, 80))
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return sock.makefile("rb").read().decode().rpartition("\r\n\r\n")[2].strip()
def udp(address, bind=None, ancillary=()):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(2)
        if bind:
            sock.setsockopt(socket.SOL_SOCKET, 25, bind)
        sock.connect((address, 9))  # so that it hears of a refusal
        for left in (2, 1, 0):  # a datagram may be lost on its way, as the first one does while a busy host finds it
            sock.sendmsg([b"hello"], ancillary)
            try:
                return sock.recv(100).decode()
            except TimeoutError:
                if not left:
                    raise
def attempt(name, call, *words, **more):
    pool.submit(tell, name, call, *words, **more)
def tell(name, call, *words, **more):
    try:
        said = call(*words, **more)
    except OSError as error:
        said = "no: " + str(error)
    sys.stdout.write(json.dumps([name, said]) + "\n")
"""


@pytest.fixture
def plane(world: World) -> Iterator[Plane]:
    """The control plane, on the loopback of the boxes' host."""
    plane = world.within(world.host, Plane)
    yield plane
    plane.down()


@pytest.fixture
def opened(make_box: Callable[..., Box], world: World) -> Callable[..., Box]:
    """Makes a box with an open network on the world's host."""

    def make(**changes: Any) -> Box:
        box = make_box(world=world, network="open", pasta=PASTA, nft=NFT, **changes)
        resolver = box.path / "resolv.conf"
        resolver.write_text("nameserver 192.0.0.53\noptions timeout:2 attempts:1\n")
        box.config["mounts"].append({"kind": "ro", "source": str(resolver), "target": "/etc/resolv.conf"})
        return box

    return make


def tried(box: Box, text: str) -> dict[str, str]:
    """What the attempts of a Python text in the jail came to, by their names."""
    said = box.plane.output(box.plane.run(f"python3 - <<'END' 2>&1\n{TRY}\n{text}\nEND")["n"]).decode()
    try:
        return dict(sorted(json.loads(line) for line in said.splitlines()))
    except ValueError:
        raise AssertionError(said) from None


def test_an_open_network_reaches_the_public_internet_by_tcp_udp_and_name(opened: Callable[..., Box]) -> None:
    box = opened().start().ready()
    assert tried(
        box,
        f"""
for address in ("{PUBLIC}", "{PUBLIC_6}"):
    attempt("tcp " + address, tcp, address)
    attempt("udp " + address, udp, address)
attempt("name", lambda: socket.gethostbyname("public.example"))
attempt("no name", lambda: socket.gethostbyname("none.example"))
""",
    ) == {
        f"tcp {PUBLIC}": f"here is {PUBLIC}", f"tcp {PUBLIC_6}": f"here is {PUBLIC_6}",
        f"udp {PUBLIC}": "hello", f"udp {PUBLIC_6}": "hello", "name": PUBLIC,
        "no name": "no: [Errno -2] Name or service not known",
    }  # fmt: skip


BARRED = (*PRIVATE, HOST, HOST_OTHER, HOST_6, "10.9.0.2", RESOLVER, "11.22.33.255", "255.255.255.255", "224.0.0.1")


def test_an_open_network_reaches_no_private_address_and_not_its_host(opened: Callable[..., Box], world: World) -> None:
    """Not plainly, and not by a socket that is bound to the interface: for one of those routes do not count."""
    box = opened().start().ready()
    said = tried(
        box,
        f"""
for address in {BARRED!r}:
    for bind in (None, b"eth0"):
        attempt(f"tcp {{address}} {{bind}}", tcp, address, bind=bind)
        attempt(f"udp {{address}} {{bind}}", udp, address, bind=bind)
    index = socket.if_nametoindex("eth0")
    if ":" in address:
        packet = (41, 50, socket.inet_pton(socket.AF_INET6, "::") + struct.pack("I", index))
    else:
        packet = (0, 8, struct.pack("I4s4s", index, b"", b""))
    attempt(f"udp {{address}} by packet", udp, address, ancillary=[packet])
    if ":" not in address:
        attempt(f"mapped {{address}}", tcp, "::ffff:" + address)
        attempt(f"nat64 {{address}}", tcp, "64:ff9b::" + address)
""",
    )
    assert len(said) > 5 * len(BARRED)
    reached = {name: how for name, how in said.items() if not how.startswith("no: ")}
    # The host's first address is the jail's own too: what is sent there stays in the jail.
    assert reached == {}
    assert [one for one in world.heard if one[0] != "name"] == []


def test_an_open_network_has_no_way_to_the_hosts_loopback(
    opened: Callable[..., Box], world: World, plane: Plane
) -> None:
    box = opened().start().ready()
    said = tried(
        box,
        f"""
def door(address, port):
    with socket.create_connection((address, port), 3):
        return "REACHED"
for address in ("127.0.0.1", "::1", "11.22.33.1", "10.9.0.1", "fe80::1%eth0"):
    for port in (80, {plane.port}):
        attempt(f"{{address}} {{port}}", door, address, port)
""",
    )
    # The gateway is a public address of this world, as it may be at home; it is the world's, not the host's.
    assert [name for name, how in said.items() if how == "REACHED"] == ["11.22.33.1 80"]
    assert [one for one in world.heard if one[0] != "name"] == [("tcp", "11.22.33.1")]


def test_nothing_from_outside_comes_into_an_open_network(opened: Callable[..., Box], world: World) -> None:
    box = opened().start().ready()
    n = box.plane.bash("python3 -m http.server 8123 --bind 0.0.0.0")
    eventually(lambda: "http.server" in str(box.jailed()))

    def knock() -> None:
        import socket as sockets

        for address in (HOST, "10.9.0.2"):
            with pytest.raises(OSError, match="refused"):
                sockets.create_connection((address, 8123), 3)

    assert (
        "200"
        in box.plane.output(
            box.plane.run("until curl -sS -o /dev/null -w '%{http_code}' http://127.0.0.1:8123/; do :; done")["n"]
        ).decode()
    )
    world.within(world.world, knock)
    box.plane.stop(n)


def test_a_network_that_the_settings_open_is_reached_and_no_other(opened: Callable[..., Box]) -> None:
    box = (
        opened(reach=["10.8.0.0/16", "192.168.7.7/32", "169.254.0.0/16", "fd00:ec2::/64", "127.0.0.0/8"])
        .start()
        .ready()
    )
    said = tried(box, f"for address in {PRIVATE!r}: attempt(address, tcp, address)")
    reached = [address for address, how in said.items() if not how.startswith("no: ")]
    assert sorted(reached) == ["10.8.7.6", "192.168.7.7", "fd00:ec2::254"]  # loopback and link-local stay closed


def test_the_jail_cannot_change_its_network(opened: Callable[..., Box], world: World) -> None:
    box = opened().start().ready()
    said = box.plane.output(box.plane.run(f"""
export PATH=$PATH:/usr/sbin:/sbin
nft flush ruleset; nft list ruleset
ip route replace 10.8.7.6 dev eth0; ip addr add 10.8.7.1/24 dev eth0; ip link set eth0 down; ip neigh flush all
unshare -Urn true; nsenter --net=/proc/1/ns/net true; ls /dev/net
cat /proc/1/ns/net; echo 1 > /proc/sys/net/ipv4/ip_forward
curl -sS -m 3 http://{PUBLIC}/; curl -sS -m 3 http://10.8.7.6/""")["n"]).decode()  # fmt: skip
    assert f"here is {PUBLIC}" in said
    assert "here is 10.8.7.6" not in said
    assert "chain" not in said
    assert [one for one in world.heard if one[0] == "tcp"] == [("tcp", PUBLIC)]


def pastas(box: Box) -> list[int]:
    return [pid for pid, line in box.processes().items() if line.startswith(PASTA)]


def test_pasta_is_the_boxs_user_and_ends_with_its_agent(opened: Callable[..., Box]) -> None:
    """Also when that was killed: the jail dies with it, and nothing is left."""
    box = opened().start().ready()
    (pasta,) = pastas(box)
    assert Path(f"/proc/{pasta}/status").read_text().split("Uid:\t")[1].split()[0] == str(box.uid)
    assert box.agent
    box.agent.kill()
    box.agent.wait()
    eventually(lambda: box.processes() == {})


def test_an_agent_that_is_told_to_quit_leaves_no_pasta(opened: Callable[..., Box]) -> None:
    box = opened().start().ready()
    assert pastas(box)
    assert box.control({"op": "quit"}) == {"ok": True}
    assert box.agent
    assert box.agent.wait(20) == 0
    eventually(lambda: box.processes() == {})


def test_a_pasta_that_died_is_started_again_behind_the_same_filter(opened: Callable[..., Box]) -> None:
    box = opened().start().ready()
    (first,) = pastas(box)
    os.kill(first, signal.SIGKILL)
    attempts = f'attempt("public", tcp, "{PUBLIC}"); attempt("private", tcp, "10.8.7.6")'

    def back() -> dict[str, str] | None:
        said = tried(box, attempts)
        return said if said["public"] == f"here is {PUBLIC}" else None

    assert eventually(back, 60)["private"].startswith("no: ")
    (second,) = pastas(box)
    assert second != first
    assert "pasta has ended and is started again" in box.log()


def test_a_parked_box_keeps_its_open_network(opened: Callable[..., Box]) -> None:
    box = opened().start().ready()
    box.plane.set_power(1, True)
    assert pastas(box)
    box.plane.set_power(2, False)
    assert tried(box, f'attempt("public", tcp, "{PUBLIC}")') == {"public": f"here is {PUBLIC}"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pasta": "/usr/bin/false"}, "pasta makes no network"),
        ({"pasta": "/nowhere/pasta"}, "/nowhere/pasta cannot be started"),
        ({"nft": "/usr/bin/false"}, "the filter of the open network is not taken (exit 1)"),
        ({"nft": "/nowhere/nft"}, "the filter of the open network is not taken (exit 127)"),
    ],
)
def test_without_filter_or_pasta_there_is_no_jail_but_the_reason(
    opened: Callable[..., Box], plane: Plane, changes: dict[str, str], said: str
) -> None:
    box = opened()
    box.config.update(changes)
    box.start()
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    assert said in event["reason"]
    assert not [e for e in plane.events if e["type"] == "up"]
    assert box.agent
    assert box.agent.wait(20) == 1
    eventually(lambda: box.processes() == {})
