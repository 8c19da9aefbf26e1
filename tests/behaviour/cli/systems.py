"""The real `rift`, as a person types it: commands that end, systems that run until they are told to stop, their MCP."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.processes import near
from tests.wire.clients import Raw, Reply

from keel.testing import eventually

RIFT = str(Path(sys.executable).with_name("rift"))
"""The program itself, as it is installed beside the Python that runs the tests."""
WITHIN = 120.0
"""How long any command may take on a busy machine, in seconds."""
SAMPLE = "sample/hello"


@dataclass(frozen=True, slots=True)
class Told:
    """How a command ended, and what it said where."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, read as JSON."""
        assert self.status == 0, self
        return json.loads(self.out)


def rift(
    *arguments: str | Path, env: Mapping[str, str] | None = None, cwd: Path | None = None, given: str | None = None
) -> Told:
    """Run a command to its end, with `given` on its standard input. Whatever it is, it shows nobody a traceback."""
    done = subprocess.run(
        [RIFT, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=WITHIN, cwd=cwd, env=environment(env), input=given,
        errors="surrogateescape",
    )  # fmt: skip
    told = Told(done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in told.out + told.err, told
    return told


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without any setting of ours, and with `more`. Onbe is left out: its port is one."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().startswith(("rift_", "onbe_"))}
    ours = {"PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "100", "Rift__Onbe__Enabled": "false"}
    return {**kept, **ours, **(more or {})}


@contextmanager
def folder(where: Path = Path("/tmp")) -> Iterator[Path]:
    """A data folder that boxes' own users can get to. Nothing of it is left afterwards."""
    data = Path(tempfile.mkdtemp(prefix="rift-cli-", dir=where))
    data.chmod(0o711)
    try:
        yield data
    finally:
        rift("down", "--data", data)
        shutil.rmtree(data, ignore_errors=True)


def free_port() -> int:
    """A port of loopback that nobody has at this moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def processes(data: Path) -> list[str]:
    """Every process of a system: server, database, agents, jails and what runs in them."""
    return [f"{pid} {said}" for pid, said in near(str(data)).items()]


@dataclass
class Running:
    """A `rift up`, `serve` or `worker` on a data folder, from its last line of welcome to its end."""

    data: Path
    command: str = "up"
    port: int = field(default_factory=free_port)
    token: str = ""
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)
    env: Mapping[str, str] = field(default_factory=dict)

    def start(self, ready: str) -> None:
        """Run until a line begins with `ready`."""
        port = ["--port", str(self.port)] if self.command != "worker" else []
        self.said = []
        with (self.data / f"{self.command}.err").open("a") as errors:
            self.process = subprocess.Popen(
                [RIFT, self.command, "--data", str(self.data), *port],
                stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(self.env),
            )  # fmt: skip
        assert self.process.stdout
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith(ready):
                break
        else:
            raise AssertionError(f"rift {self.command} ended: {self.said} {self.errors()}")
        if found := re.search(r"^  (rift_[\w-]{40,})$", "\n".join(self.said), re.MULTILINE):
            self.token = found[1]

    def up(self) -> None:
        """Run `rift up` until it has said all."""
        self.start("Ctrl-C stops the server")

    def end(self, number: int = signal.SIGINT) -> str:
        """Send the signal; what it said after that. It ends well, within seconds."""
        assert self.process
        assert self.process.stdout
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, (self.process.returncode, rest, self.errors())
        self.process = None
        return rest

    def kill(self) -> None:
        """As kill -9."""
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def errors(self) -> str:
        """What it logged."""
        return (self.data / f"{self.command}.err").read_text()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def raw(self, tool: str, token: str = "", **arguments: Any) -> Reply:
        """A tool call as it comes back over HTTP."""
        return await Raw(self.url, token or self.token).call(tool, arguments)

    async def call(self, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """A tool call that is answered: its text and its structure."""
        reply = await self.raw(tool, **arguments)
        assert reply.status == 200, reply
        text = "\n".join(block["text"] for block in reply.result["content"])
        assert not reply.result.get("isError"), text
        return text, reply.result.get("structuredContent") or {}

    async def take(self) -> tuple[str, str]:
        """Open a task and take a box of the sample; the task's handle and the box, running."""
        task = re.search(r"^handle: (\S+)$", (await self.call("rift_task_new", name="work"))[0], re.MULTILINE)
        assert task
        made = (await self.call("rift_vm_new", task=task[1], repo=SAMPLE, ref="main"))[0]
        box = re.search(r"^id (b-[0-9a-f]{24})", made, re.MULTILINE)
        assert box, made

        async def runs() -> bool:
            listed = (await self.call("rift_vm_ls", task=task[1]))[1]["vms"]
            return any(one["id"] == box[1] and one["status"] == "running" for one in listed)

        await eventually(runs, within=60, every=0.2)
        return task[1], box[1]

    async def bash(self, task: str, vm: str, command: str, timeout: int = 60, block_for: int = 30) -> dict[str, Any]:
        """Run a command in a box; the answer's structure."""
        return (await self.call("rift_bash", task=task, vm=vm, command=command, timeout=timeout, block_for=block_for))[
            1
        ]


@contextmanager
def system(env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """A `rift up` on a fresh folder. Nothing of it is left afterwards."""
    with folder() as data:
        one = Running(data, env=env or {})
        try:
            one.up()
            yield one
        finally:
            one.kill()
