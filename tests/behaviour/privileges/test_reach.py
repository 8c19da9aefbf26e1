"""What the server's user and a box's user try beyond their part, on a whole Rift with two boxes of root's."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.behaviour.cli.systems import Running, system
from tests.behaviour.privileges.table import AS_ROOT
from tests.behaviour.privileges.test_table import main_of, serving

from keel.postgres import EmbeddedPostgres
from rift.cli.place import SERVER_USER
from rift.drivers.boxes.local import LocalConfig

pytestmark = pytest.mark.skipif(not AS_ROOT, reason="where a user started Rift, all of it is that user's")

TRY = """
import json, os, sys
from rift.keeper.drop import become
become(int(sys.argv[1]), int(sys.argv[2]), parent=os.getppid())
def done(act, *words):
    try:
        return f"did {act(*words)!r:.200}"
    except OSError as error:
        return f"no: {error.strerror or error}"
    except Exception as error:
        return f"no: {type(error).__name__}: {error}"
"""


@dataclass(frozen=True)
class Whole:
    """A system, its keeper and server, and two boxes of it."""

    up: Running
    keeper: int
    server: int
    boxes: tuple[Path, Path]

    def tries(self, uid: int, gid: int, body: str, *words: str) -> dict[str, str]:
        """What happens to each attempt of `body`, which prints them as JSON, as that user."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", TRY + body, str(uid), str(gid), str(self.up.data), *words],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told: dict[str, str] = json.loads(done.stdout)
        return told

    @property
    def mirror(self) -> Path:
        (mirror,) = (path for path in (self.up.data / "mirrors").iterdir() if not path.name.startswith("."))
        return mirror


@pytest.fixture(scope="module")
def whole() -> Iterator[Whole]:
    with system() as up:
        boxes = asyncio.run(_box(up)), asyncio.run(_box(up))
        keeper = main_of(up.data / "rift.lock")
        yield Whole(up, keeper, serving(keeper)[0], boxes)


async def _box(up: Running) -> Path:
    task, box = await up.take()
    assert (await up.bash(task, box, "echo private >~/secret"))["exit"] == 0
    return up.data / "boxes" / box


READ = """
print(json.dumps({path: done(lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(99))
                  for path in sys.argv[4:]}))
"""
WRITE = """
def put(folder):
    with open(folder + "/.try", "w") as file:
        file.write("x")
print(json.dumps({path: done(put, path) for path in sys.argv[4:]}))
"""
CONNECT = """
import socket
def call(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(path)
        sock.sendall(b'{"op": "status"}\\n')
        if not (answer := sock.recv(100)):
            raise OSError("nothing was answered")
        return answer
print(json.dumps({path: done(call, path) for path in sys.argv[4:]}))
"""
DATABASE = """
import psycopg
print(json.dumps({url: done(lambda: psycopg.connect(url, connect_timeout=10).execute("SELECT current_user").fetchone())
                  for url in sys.argv[4:]}))
"""


def server_user() -> tuple[int, int]:
    found = pwd.getpwnam(SERVER_USER)
    return found.pw_uid, found.pw_gid


def box_user(path: Path) -> tuple[int, int]:
    return path.stat().st_uid, LocalConfig(path).group


def test_the_servers_user_reads_no_secret_of_the_host_and_nothing_of_a_box(whole: Whole) -> None:
    data, (box, _) = whole.up.data, whole.boxes
    paths = [
        *("/etc/shadow", "/root", f"/proc/{whole.keeper}/environ", f"/proc/{whole.server}/environ"),
        *(f"/proc/{whole.keeper}/fd", f"/proc/{whole.keeper}/cwd"),
        *map(str, (box, box / "home", box / "home" / "secret", box / "token", box / "agent.json", box / "spool")),
        *map(
            str, (data, data / "boxes", data / "mirrors", whole.mirror, whole.mirror / "objects", whole.mirror / "HEAD")
        ),
        *map(str, (data / "postgres" / "cluster", data / "postgres" / "log", data / "postgres" / "run")),
    ]
    told = whole.tries(*server_user(), READ, *paths)
    assert {path: said for path, said in told.items() if said != "no: Permission denied"} == {}


def test_the_servers_user_writes_nowhere_in_the_data_folder_but_where_it_seals(whole: Whole) -> None:
    data = whole.up.data
    folders = [path for path, _, _ in os.walk(data) if not path.startswith((f"{data}/audit", f"{data}/vault"))]
    told = whole.tries(*server_user(), WRITE, *folders[:500])
    assert len(told) > 20
    assert {path: said for path, said in told.items() if said != "no: Permission denied"} == {}
    owned = {Path(path, name).relative_to(data).parts[0] for path, folders, files in os.walk(data)
             for name in (*folders, *files) if os.lstat(f"{path}/{name}").st_uid == server_user()[0]}  # fmt: skip
    assert owned == {"audit", "vault"}


def test_the_database_knows_the_servers_user_as_the_runtime_role_alone(whole: Whole) -> None:
    postgres = EmbeddedPostgres(whole.up.data)
    runtime, *others = (postgres.url(role) for role in ("rift_runtime", "rift_owner", "postgres"))
    told = whole.tries(*server_user(), DATABASE, runtime, *others)
    assert told[runtime] == "did ('rift_runtime',)"
    assert all("Peer authentication failed" in told[url] for url in others), told
    for user in (box_user(whole.boxes[0]), (65534, 65534)):
        told = whole.tries(*user, DATABASE, runtime, *others)
        assert all("Permission denied" in said for said in told.values()), told


def test_the_agents_socket_lets_boxes_users_in_and_nobody_else(whole: Whole) -> None:
    path = str(whole.up.data / "agents.sock")
    assert whole.tries(*box_user(whole.boxes[0]), CONNECT, path)[path].startswith("did b'HTTP/1.1 400")
    for user in (server_user(), (65534, 65534)):
        assert whole.tries(*user, CONNECT, path)[path] == "no: Permission denied"


def test_nobody_takes_a_lock_of_the_data_folder_and_passes_for_who_serves(whole: Whole) -> None:
    path = str(whole.up.data / "rift.lock")
    for user in (server_user(), box_user(whole.boxes[0]), (65534, 65534)):
        assert whole.tries(*user, READ, path)[path] == "no: Permission denied"


def test_agents_answer_root_and_their_own_user_alone(whole: Whole) -> None:
    one, other = (str(box / "control.sock") for box in whole.boxes)
    told = whole.tries(*server_user(), CONNECT, one, other)
    assert set(told.values()) == {"no: Permission denied"}
    told = whole.tries(*box_user(whole.boxes[0]), CONNECT, one, other)
    assert told[one].startswith("did ")
    assert told[other] == "no: Permission denied"


def test_a_boxs_user_reads_its_own_box_and_the_mirror_and_writes_its_own_box_alone(whole: Whole) -> None:
    data, (box, other) = whole.up.data, whole.boxes
    closed = [
        *map(str, (other, other / "home" / "secret", other / "token", other / "agent.json", data / "boxes", data)),
        *("/etc/shadow", "/root", f"/proc/{whole.keeper}/environ", f"/proc/{whole.server}/environ"),
        *(str(data / name) for name in ("postgres/cluster", "postgres/run", "mirrors", "audit", "vault")),
    ]
    opened = [str(box / "home" / "secret"), str(box / "token"), str(whole.mirror / "objects")]
    told = whole.tries(*box_user(box), READ, *closed, *opened)
    assert {path: told[path] for path in closed if told[path] != "no: Permission denied"} == {}
    assert {path: told[path] for path in opened if not told[path].startswith("did ")} == {}
    folders = [path for path, _, _ in os.walk(data) if not path.startswith(str(box))]
    told = whole.tries(*box_user(box), WRITE, *folders[:500])
    assert {path: said for path, said in told.items() if said != "no: Permission denied"} == {}


def test_nothing_that_gave_root_away_comes_by_it_again(whole: Whole) -> None:
    body = """
import ctypes, signal, socket, subprocess
libc = ctypes.CDLL(None, use_errno=True)
def must(answer):
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
keeper, server = int(sys.argv[4]), int(sys.argv[5])
print(json.dumps({
    "setuid": done(os.setuid, 0), "setgid": done(os.setgid, 0), "setgroups": done(os.setgroups, [0]),
    "chroot": done(os.chroot, "/tmp"), "kill the keeper": done(os.kill, keeper, 0),
    "trace the keeper": done(lambda: must(libc.ptrace(16, keeper, 0, 0))),
    "trace the server": done(lambda: must(libc.ptrace(16, server, 0, 0))),
    "open its memory": done(open, f"/proc/{server}/mem", "rb"),
    "a user namespace": done(lambda: must(libc.unshare(0x10000000))),
    "a mount": done(lambda: must(libc.mount(b"none", b"/tmp", b"tmpfs", 0, 0))),
    "a raw socket": done(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1),
    "a low port": done(lambda: socket.socket().bind(("127.0.0.1", 1))) if int(
        open("/proc/sys/net/ipv4/ip_unprivileged_port_start").read()) > 1 else "no: ",
    "what it starts": subprocess.run(
        ["/bin/sh", "-c", "cat /proc/self/status"], capture_output=True, text=True).stdout,
}))
"""
    told = whole.tries(*server_user(), body, str(whole.keeper), str(whole.server))
    status = told.pop("what it starts")
    assert "NoNewPrivs:\t1" in status
    assert "CapBnd:\t0000000000000000" in status
    assert {what: said for what, said in told.items() if not said.startswith("no: ")} == {}


def test_no_secret_of_roots_environment_is_in_the_servers(whole: Whole) -> None:
    def environment(pid: int) -> set[str]:
        return {
            pair.partition("=")[0] for pair in Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") if pair
        }

    assert {"HOME", "USER", "LOGNAME"} <= environment(whole.server)
    assert Path(f"/proc/{whole.server}/cwd").readlink() == Path("/")
    allowed = ("LC_", "OTEL_", "PYTHON")
    names = {"COLUMNS", "FORCE_COLOR", "HOME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "NO_COLOR", "PATH",
             "SSL_CERT_DIR", "SSL_CERT_FILE", "TERM", "TZ", "USER"}  # fmt: skip
    assert {name for name in environment(whole.server) - names if not name.startswith(allowed)} == set()
