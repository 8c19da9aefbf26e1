"""Rift as a person starts it: its commands in processes of their own, on a data folder and a port of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

RIFT = (sys.executable, "-c", "from rift.cli import main; main()")
WITHIN = 180.0
"""When a process is ended that a broken demo keeps waiting, in seconds."""


@dataclass(frozen=True, slots=True)
class Played:
    """How a process ended, and what it printed."""

    status: int
    output: str


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A `rift` command with its output as lines; it is ended with the block."""
    environment = {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", "Rift__Onbe__Enabled": "false"}
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
