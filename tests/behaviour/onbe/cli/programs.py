"""The real `onbe`, as a person types it: commands that end, servers that run until they are told to stop."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from tests.behaviour.cli.systems import WITHIN, Told, environment, free_port
from tests.processes import near

from keel.postgres import EmbeddedPostgres
from keel.testing import scratch

ONBE = str(Path(sys.executable).with_name("onbe"))
"""The program itself, as it is installed beside the Python that runs the tests."""


def onbe(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Told:
    """Run a command to its end. Whatever it is, it shows nobody a traceback."""
    done = subprocess.run(
        [ONBE, *map(str, arguments)],
        capture_output=True, text=True, check=False, timeout=WITHIN, env=environment(env),
    )  # fmt: skip
    told = Told(done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in told.out + told.err, told
    return told


@contextmanager
def folder() -> Iterator[Path]:
    """A data folder that system users can get to. Nothing of it is left afterwards."""
    data = Path(tempfile.mkdtemp(prefix="onbe-cli-", dir=scratch()))
    data.chmod(0o711)
    try:
        yield data
    finally:
        with suppress(OSError):
            EmbeddedPostgres(data, name="onbe").remove()
        shutil.rmtree(data, ignore_errors=True)


def processes(data: Path) -> list[str]:
    """Every process of a server but its database's."""
    return [f"{pid} {said}" for pid, said in near(str(data)).items() if "postgres" not in said]


@dataclass
class Server:
    """An `onbe serve --development` on a data folder."""

    data: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """Run until it says that it serves."""
        with (self.data / "serve.err").open("a") as errors:
            self.process = subprocess.Popen(
                [ONBE, "serve", "--development", "--data", str(self.data), "--port", str(self.port)],
                stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(env),
            )  # fmt: skip
        assert self.process.stdout
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith("  see it at work:"):
                return
        raise AssertionError(f"onbe serve ended: {self.said} {self.errors()}")

    def end(self, number: int = signal.SIGINT) -> None:
        """Send the signal. It ends well, within seconds."""
        assert self.process
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, (self.process.returncode, rest, self.errors())
        self.process = None

    def kill(self) -> None:
        """As kill -9."""
        if self.process:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def errors(self) -> str:
        """What it logged."""
        return (self.data / "serve.err").read_text()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return httpx2.get(f"{self.url}{path}", headers=headers, timeout=30)

    def admin(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """As the administrator, by the key that the first start made."""
        key = (self.data / "admin.key").read_text().strip()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        return httpx2.request(method, f"{self.url}{path}", headers=headers, content=content, timeout=30)


@contextmanager
def server() -> Iterator[Server]:
    """A server on a fresh folder. Nothing of it is left afterwards."""
    with folder() as data:
        one = Server(data)
        try:
            one.start()
            yield one
        finally:
            one.kill()
