"""From inside a jail: no way to the control plane, its database, the agent, or any other socket of the host."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.behaviour.attacks.conftest import Attacker
from tests.behaviour.stack.stack import Stack

SOCKETS = [
    *((2, 3, 1), (2, 3, 255), (10, 3, 58)),  # raw ones of IPv4 and IPv6
    *((17, 3, 0x0300), (17, 2, 0x0300)),  # packets
    *((40, 1, 0), (38, 5, 0), (15, 3, 2), (21, 5, 0), (31, 3, 0)),  # the hypervisor's, crypto, keys, and more
]
"""Families, kinds and protocols that no box may have, by their numbers in Linux."""

UNIX = r"""
import os, socket, stat
def sockets(top):
    for folder, folders, names in os.walk(top, onerror=lambda error: None):
        for name in names:
            try:
                if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode):
                    yield os.path.join(folder, name)
            except OSError:
                pass
"""


def addresses() -> list[str]:
    """The host's own addresses."""
    found = {"127.0.0.1", "127.0.1.1", "127.255.255.254", "0.0.0.0", "::1", "::ffff:127.0.0.1"}
    found |= {str(one[4][0]) for one in socket.getaddrinfo(socket.gethostname(), None)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # sends nothing; tells the address of the way out
            found.add(probe.getsockname()[0])
        except OSError:  # this machine has no way out
            pass
    return sorted(found)


async def test_no_address_of_the_host_answers_on_any_port_that_listens_there(attacker: Attacker, stack: Stack) -> None:
    ports = [stack.port, *listening()]
    said = await attacker.python(
        f"""
import socket
for host in {addresses()!r}:
    for port in {ports!r}:
        if (host, port) in (("127.0.0.1", 3128), ("0.0.0.0", 3128), ("::ffff:127.0.0.1", 3128)):
            continue  # the box's own proxy
        try:
            socket.create_connection((host, port), 2).close(); print("REACHED", host, port)
        except OSError:
            pass
print("tried", {len(ports)})
"""
    )
    assert said == [f"tried {len(ports)}"]


async def test_the_proxy_leads_to_no_address_of_the_host(attacker: Attacker, stack: Stack) -> None:
    """Neither by number in any spelling, nor by a name that means it."""
    hosts = [*(f"[{one}]" if ":" in one else one for one in addresses())]
    hosts += ["localhost", "LOCALHOST.", "localhost.localdomain", "ip6-localhost", socket.gethostname()]
    hosts += [
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "0",
        "127.0.0.1.",
        "[::]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
    ]
    hosts += ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "10.0.0.1", "192.168.1.1", "172.17.0.1"]
    said = await attacker.python(
        f"""
import socket
for host in {hosts!r}:
    for port in (80, 443, {stack.port}):
        for ask in ("CONNECT %s:%d HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (host, port, host),
                    "GET http://%s:%d/healthz HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (host, port, host)):
            sock = socket.create_connection(("127.0.0.1", 3128), 10)
            sock.sendall(ask.encode())
            answer = sock.recv(65536).decode("latin-1")
            if answer.split()[1] == "200":
                print("REACHED", ask, answer)
print("tried")
""",
        timeout=120,
    )
    assert said == ["tried"]


async def test_no_socket_of_the_host_stands_anywhere_in_the_jail(attacker: Attacker, stack: Stack) -> None:
    """Neither the agents' door, the agent's own, the database's nor any other, also not by the paths of the host."""
    theirs = [str(stack.data / "agents.sock"), str(stack.data / "boxes" / attacker.hands.vm / "control.sock")]
    theirs += [
        line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:] if "/" in line or "@" in line
    ]
    said = await attacker.python(
        UNIX
        + f"""
for path in sockets("/"):
    if not path.startswith("/proc/"):
        print("STANDS", path)
for path in {theirs!r}:
    try:
        socket.socket(socket.AF_UNIX).connect("\\0" + path[1:] if path.startswith("@") else path)
        print("REACHED", path)
    except OSError:
        pass
print("tried")
"""
    )
    assert said == ["tried"]


async def test_no_descriptor_of_the_agent_came_into_a_command(attacker: Attacker) -> None:
    said = await attacker.python(
        """
import os
for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
    try:
        print(fd, os.readlink("/proc/self/fd/%d" % fd).partition(":")[0])
    except OSError:
        pass  # the folder's own, closed by now
"""
    )
    shapes = {tuple(line.split()) for line in said}
    assert {number for number, _ in shapes} <= {"0", "1", "2"}
    assert {kind for _, kind in shapes} <= {"pipe", "/dev/null", "/tmp/sh-thd", "/proc"} | {
        kind
        for _, kind in shapes
        if kind.startswith("/tmp/sh-thd")  # the shell's own here-document
    }


async def test_only_the_loopback_is_there_and_no_raw_socket_can_be_made(attacker: Attacker) -> None:
    said = await attacker.python(
        f"""
import socket
print([name for _, name in socket.if_nameindex()])
for family, kind, protocol in {SOCKETS!r}:
    try:
        socket.socket(family, kind, protocol); print("MADE", family, kind, protocol)
    except OSError:
        pass
for address in (("192.0.2.1", 80), ("8.8.8.8", 53), ("169.254.169.254", 80)):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            sock = socket.socket(socket.AF_INET, kind); sock.settimeout(2); sock.connect(address)
            print("REACHED", address)
        except OSError:
            pass
"""
    )
    assert said == ["['lo']"]


def listening() -> list[int]:
    """The TCP ports of this host that somebody listens on."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(found)
