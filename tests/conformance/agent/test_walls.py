"""What a jail cannot see, reach or become."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conformance.agent.boxes import SECRET, Box
from tests.conformance.agent.plane import TOKEN, Plane

CGROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
Make = Callable[..., Box]


def sh(box: Box, command: str) -> str:
    return box.plane.output(box.plane.run(command)["n"]).decode()


def python(box: Box, text: str) -> str:
    return sh(box, f"python3 - <<'END' 2>&1\n{text}\nEND")


def test_the_jail_has_no_capabilities_no_new_privileges_and_a_filter(box: Box) -> None:
    status = dict(line.split(":", 1) for line in sh(box, "cat /proc/self/status").splitlines())
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[kind], 16) == 0
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    assert status["Uid"].split() == ["1000"] * 4
    assert status["Gid"].split() == ["1000"] * 4


def test_nothing_in_the_jail_is_the_hosts_root(box: Box) -> None:
    n = box.plane.bash("cat /proc/self/uid_map; sleep 6666")
    box.plane.wait(lambda: n)
    while not (inside := [pid for pid, line in box.jailed().items() if line.startswith("sleep 6666")]):
        pass
    assert Path(f"/proc/{inside[0]}").stat().st_uid == box.uid != 0
    assert Path(f"/proc/{inside[0]}/uid_map").read_text().split() == ["1000", str(box.uid), "1"]
    for pid in box.processes():
        uids = re.search(r"^Uid:\t(\d+)\t(\d+)\t(\d+)\t(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        assert uids is None or set(uids.groups()) == {str(box.uid)}
    box.plane.stop(n)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start an agent as root")
def test_an_agent_started_as_root_makes_no_jail_unless_a_user_is_named(make_box: Make, plane: Plane) -> None:
    box = make_box()
    box.uid = 0
    box.start()
    (event,) = plane.wait(lambda: [e for e in plane.events if e["type"] == "failed"])
    assert "root" in event["reason"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start an agent as root")
def test_an_agent_that_is_root_of_its_own_machine_gives_the_jail_a_user_and_a_cgroup(make_box: Make) -> None:
    tree = next((path for path in CGROUPS if (path / "cgroup.procs").exists()), None)
    box = make_box()
    box.config["uid"] = box.uid
    group = tree / f"rift-test-{box.uid}" if tree else None
    if group:
        group.mkdir()
        box.config["cgroups"] = [str(group)]
    box.start().ready()
    try:
        assert sh(box, "echo fine > /dev/stdout; id -u; cat ~/../dev/none 2>&1 >/dev/null; touch ~/x /tmp/y") != ""
        n = box.plane.bash("sleep 8888")
        inside = box.plane.wait(lambda: [pid for pid, line in box.jailed().items() if line.startswith("sleep 8888")])
        assert Path(f"/proc/{inside[0]}").stat().st_uid == box.uid
        if group:
            assert str(inside[0]) in (group / "cgroup.procs").read_text().split()
        assert box.control({"op": "power", "epoch": 1, "frozen": True})["frozen"]
        if group:
            assert "frozen 1" in (group / "cgroup.events").read_text()
        assert box.control({"op": "power", "epoch": 2, "frozen": False})["frozen"] is False
        box.plane.power = [2, False]
        box.plane.stop(n)
        assert box.plane.ended(n)["exit"] == 143
        assert box.control({"op": "power", "epoch": 3, "frozen": True})["frozen"]
        assert box.control({"op": "quit"}) == {"ok": True}  # also a frozen jail dies
    finally:
        box.end()
        if group:
            group.rmdir()


def test_the_hosts_environment_files_processes_and_token_are_not_there(box: Box) -> None:
    assert SECRET not in sh(box, "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; env; cat /proc/1/environ")
    assert sorted({*sh(box, "ls /").split()} - {"var"}) == sorted(
        ["bin", "dev", "etc", "home", "lib", "lib64", "opt", "proc", "run", "sbin", "srv", "tmp", "usr"]
    )
    assert sh(box, "ls -a /run /root /work 2>/dev/null").split() == ["/run:", ".", "..", "rift"]
    assert TOKEN not in sh(box, "grep -rs a-token-of /run /tmp /home /proc/1 2>/dev/null")
    pids = sh(box, "ls /proc").split()
    assert "1" in pids
    assert len([pid for pid in pids if pid.isdigit()]) < 8
    assert sh(box, "hostname; cat /proc/self/cgroup | wc -l").split()[0] == "app-main-1"


def test_the_init_cannot_be_looked_into_or_taken_over(box: Box) -> None:
    said = (
        python(
            box,
            """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for name in ("/proc/1/mem", "/proc/1/maps", "/proc/1/environ", "/proc/1/fd/3", "/proc/1/root/etc/hostname"):
    try:
        os.close(os.open(name, os.O_RDONLY)); print("OPENED", name)
    except OSError as error:
        print("no", error.errno)
def call(number, *words):
    ctypes.set_errno(0); print(libc.syscall(number, *words), ctypes.get_errno())
pid = os.pidfd_open(1)
call(438, pid, 3, 0)             # pidfd_getfd
call(101, 16, 1, 0, 0)           # ptrace attach
call(310, 1, 0, 0, 0, 0, 0)      # process_vm_readv
call(272, 0x10000000)            # unshare a user namespace
call(321, 0, 0, 0)               # bpf
""",
        )
        if os.uname().machine == "x86_64"
        else ""
    )
    assert "OPENED" not in said
    assert said.count("-1 1\n") == (5 if said else 0)


def test_what_the_init_runs_cannot_be_replaced(box: Box) -> None:
    moves = "mv /run/rift /run/away; mv /run /away; rm -f /run/rift/agent.pyz; touch /run/rift/x; chmod 700 /run/rift"
    sh(box, f"({moves}) 2>/dev/null")
    assert sh(box, "ls -A /run /run/rift; test -w /run/rift || echo closed").split() == (
        ["/run:", "rift", "/run/rift:", "agent.pyz", "closed"]
    )


def test_the_jail_has_sockets_of_its_own_namespaces_alone(box: Box) -> None:
    """Those of VSOCK reach the hypervisor, whatever the network namespace."""
    said = python(
        box,
        """
import socket
for family in range(1, 60):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close(); print(family)
    except OSError:
        pass
""",
    )
    assert {int(word) for word in said.split()} <= {1, 2, 10, 16}
    assert {1, 2} <= {int(word) for word in said.split()}


def test_the_jail_has_only_its_own_loopback(box: Box) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    said = python(
        box,
        f"""
import socket
for address in (("127.0.0.1", {port}), ("127.0.0.1", {box.plane.port}), ("10.0.0.1", 80), ("1.1.1.1", 443)):
    try:
        socket.create_connection(address, 2); print("REACHED", address)
    except OSError as error:
        print("no", error)
print([name for _, name in socket.if_nameindex()])
""",
    )
    server.close()
    assert "REACHED" not in said
    assert "['lo']" in said


CLIENT = r"""
import socket, sys
def ask(text, more=b""):
    sock = socket.create_connection(("127.0.0.1", 3128), 10)
    sock.sendall(text.encode("latin-1") + more)
    answer = b""
    while True:
        part = sock.recv(65536)
        if not part:
            return answer.decode("latin-1")
        answer += part
"""


@pytest.fixture
def networked(make_box: Make) -> Box:
    return (
        make_box(network="proxy", allow=["listed.example", "127.0.0.1", "10.0.0.7", "localhost", "[::1]", "::1"])
        .start()
        .ready()
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("unlisted.example:443", "unlisted.example is not on the allow list of the repository app"),
        ("127.0.0.1:443", "loopback"),
        ("10.0.0.7:443", "private"),
        ("localhost:443", "loopback"),
        ("[::1]:443", "loopback"),
        ("listed.example:22", "only ports 80 and 443"),
    ],
)
def test_the_proxy_refuses_and_says_what_would_mend_it(networked: Box, target: str, said: str) -> None:
    answer = python(networked, f'{CLIENT}print(ask("CONNECT {target} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"))')
    assert answer.startswith("HTTP/1.1 403 ")
    assert said in answer
    if "unlisted" in target:
        assert "rift repo network app" in answer


def test_the_proxy_refuses_a_plain_request_to_the_host_itself(networked: Box) -> None:
    answer = python(
        networked, f'{CLIENT}print(ask("GET http://127.0.0.1/x HTTP/1.1\\r\\nHost: listed.example\\r\\n\\r\\n"))'
    )
    assert answer.startswith("HTTP/1.1 403 ")


def test_tools_of_the_jail_meet_the_proxys_refusal(networked: Box) -> None:
    networked.plane.run("true")
    said = python(
        networked,
        """
import urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
try:
    opener.open("http://unlisted.example/")
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
""",
    )
    assert said.startswith("403 unlisted.example is not on the allow list")


def test_without_a_proxy_nobody_listens_in_the_jail(box: Box) -> None:
    assert "REACHED" not in python(
        box, 'import socket\nprint("REACHED", socket.create_connection(("127.0.0.1", 3128), 2))'
    )


def test_the_proxy_carries_a_listed_request_through_the_hosts_own_proxy(make_box: Make) -> None:
    """Where the host itself has only a proxy: the way out is a CONNECT there, and bytes go both ways."""
    upstream = socket.create_server(("127.0.0.1", 0))
    heads: list[bytes] = []

    def serve() -> None:
        for _ in range(2):
            sock, _ = upstream.accept()
            with sock, sock.makefile("rwb") as file:
                heads.append(b"".join(iter(file.readline, b"\r\n")))
                file.write(b"HTTP/1.1 200 OK\r\n\r\n")
                file.flush()
                request = b"".join(iter(file.readline, b"\r\n"))
                body = file.read(4) if b"POST" in request else b""
                heads.append(request + body)
                file.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
                file.flush()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    box = make_box(
        network="proxy", allow=["*.listed.example"], upstream_proxy=f"http://127.0.0.1:{upstream.getsockname()[1]}"
    )
    box.start().ready()
    answer = python(
        box,
        CLIENT
        + r"""
print(ask("POST http://a.listed.example/p?q=1 HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: x\r\n"
          "Connection: x-drop\r\nX-Drop: 1\r\nContent-Length: 4\r\n\r\n",
          b"bodyGET http://evil.example/ HTTP/1.1\r\n\r\n"))
print(ask("CONNECT b.listed.example:443 HTTP/1.1\r\n\r\nGET /in-tunnel HTTP/1.1\r\n\r\n"))
""",
    )
    thread.join(10)
    upstream.close()
    assert answer.count("hi") == 2
    assert heads[0].startswith(b"CONNECT a.listed.example:80 HTTP/1.1\r\n")
    assert heads[1] == (
        b"POST /p?q=1 HTTP/1.1\r\nHost: a.listed.example\r\nContent-Length: 4\r\nConnection: close\r\nbody"
    )
    assert heads[2].startswith(b"CONNECT b.listed.example:443 ")
    assert heads[3] == b"GET /in-tunnel HTTP/1.1\r\n"
