"""A whole Rift with real boxes, as a test starts, kills, starts again and ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from tests.behaviour.stack import program
from tests.processes import near

from keel.clock import SystemClock
from keel.testing.plugin import FreshDatabase

ROOT = Path(__file__).parents[3]
STARTS_WITHIN = 60.0


@dataclass(eq=False)
class Stack:
    """A data folder that boxes' users can enter, a port, a database, and the process that serves them."""

    database: FreshDatabase
    data: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rift-stack-")))
    port: int = 0
    process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.data.chmod(0o711)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    @property
    def url(self) -> str:
        """Where MCP clients go."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens of `program.CLIENTS`, by name."""
        made: dict[str, str] = json.loads((self.data / "people.json").read_text())
        return made

    @property
    def boxes(self) -> list[str]:
        """The ids of the boxes of which something is on the disk."""
        folder = self.data / "boxes"
        return sorted(path.name for path in folder.glob("[!.]*")) if folder.exists() else []

    def start(self) -> None:
        """Serve; returns once requests are taken."""
        path = os.pathsep.join(sys.path)
        with (self.data / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, program.__file__, str(self.data), str(self.port), self.database.runtime],
                stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        assert self.process.stdout
        if self.process.stdout.readline() != "serving\n":
            self.process.kill()
            raise AssertionError(f"Rift did not start:\n{self.log()}")

    def kill(self) -> None:
        """As kill -9 does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As Ctrl-C does: boxes live on."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(timeout=30)
            assert self.process.stdout
            self.process.stdout.close()
            self.process = None

    def log(self) -> str:
        """The end of what it logged."""
        return (self.data / "log").read_text()[-4000:]

    def sql(self, query: str, **values: Any) -> list[dict[str, Any]]:
        """One statement as the database's owner: what time would do to a row, done at once; or a look at what is."""
        with psycopg.connect(self.database.owner, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(query, values)
            return list(cursor) if cursor.description else []

    def agent(self, box: str) -> int:
        """The process id of a box's agent."""
        return int((self.data / "boxes" / box / "agent.pid").read_text())

    def left(self) -> list[str]:
        """Whatever there is of any box: its files, its mounts, its processes."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if str(self.data) in line]
        return [*self.boxes, *mounts, *self.processes()]

    def processes(self, box: str = "") -> list[str]:
        """The processes of a box, or of any: those that see its folder mounted, or are named by it."""
        return [f"{pid} {said}" for pid, said in near(f"{self.data.name}/boxes/{box}").items()]

    def see_nothing_left(self) -> None:
        """Every task is closed and nothing is watched: nothing of any box may be left within a minute."""
        clock = SystemClock()
        until = clock.monotonic() + 60
        while self.left() and clock.monotonic() < until:
            assert self.process
            wait(self.process, 0.2)
        assert not self.left(), f"{self.left()}\n{self.log()}"

    def end(self) -> None:
        """Stop, and remove the folder, whatever state a failed test left it in."""
        self.stop()
        for line in self.processes():  # nobody else works in our folder
            os.kill(int(line.split()[0]), signal.SIGKILL)
        shutil.rmtree(self.data, ignore_errors=True)


def wait(process: subprocess.Popen[str], seconds: float) -> None:
    """A pause that ends early, and fails, when the server ends."""
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError(f"the server ended with {code}")
