"""Rift as a person starts it: its commands in processes of their own, on a data folder and a port of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RIFT = (sys.executable, "-c", "from rift.cli import main; main()")
WITHIN = 180.0
"""When a process is ended that a broken demo keeps waiting, in seconds."""


@dataclass(frozen=True, slots=True)
class Played:
    """How a process ended, and what it printed."""

    status: int
    output: str


@contextmanager
def folder() -> Iterator[Path]:
    """A data folder with a short path (sockets stand in it) that boxes' own users can get to."""
    data = Path(tempfile.mkdtemp(prefix="rift-", dir="/tmp"))
    data.chmod(0o711)
    try:
        yield data
    finally:
        rift("down", "--data", str(data))
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A `rift` command with its output as lines; it is ended with the block."""
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [*RIFT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as one:
        guard = threading.Timer(WITHIN, one.kill)
        guard.start()
        try:
            yield one
        finally:
            guard.cancel()
            if one.poll() is None:
                one.terminate()


def rift(*arguments: str, on: str = "", act: Callable[[], object] | None = None) -> Played:
    """Run a command to its end; at the first line with `on` in it, `act` is done."""
    lines = []
    with process(*arguments) as one:
        assert one.stdout is not None
        for line in one.stdout:
            lines.append(line)
            if act and on in line:
                act()
                act = None
        status = one.wait()
    return Played(status, "".join(lines))


def free_port() -> str:
    """A port of loopback that nobody has at this moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])
