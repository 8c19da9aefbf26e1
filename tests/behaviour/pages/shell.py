"""A shell that a page's commands are typed into, one after the other, and the servers that they start."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.behaviour.cli.systems import WITHIN, environment

SERVES = re.compile(r"^(?P<set>(?:\w+=\S+ )*)(?P<program>(?:rift (?:up|serve|worker)|onbe serve)\b.*)$", re.DOTALL)
READY = re.compile(r"Ctrl-C stops|Rift serves at|Onbe serves|see it at work")
MARK = "--said-and-done--"


class Shell:
    """A bash in a folder of its own. What it starts as a server runs until `close`."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.servers: list[tuple[str, subprocess.Popen[str]]] = []
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=folder, env=environment(env), text=True, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def run(self, text: str) -> tuple[int, str]:
        """Type a statement; its exit status and all that it printed. A server is left running once it is ready."""
        served = SERVES.match(text.strip())
        return self._serve(text, served) if served else self._typed(text)

    def _typed(self, text: str) -> tuple[int, str]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{{ {text}\n}} </dev/null\nprintf '\\n{MARK}%s\\n' $?\n")
        self.process.stdin.flush()
        said, until = b"", time.monotonic() + WITHIN
        out = self.process.stdout.fileno()
        with selectors.DefaultSelector() as ready:
            ready.register(out, selectors.EVENT_READ)
            while not (found := re.search(rf"\n{MARK}(\d+)\n$", said.decode("utf-8", "replace"))):
                if not ready.select(until - time.monotonic()):
                    raise AssertionError(f"no end of {text!r}: {said.decode('utf-8', 'replace')}")
                if not (piece := os.read(out, 65536)):
                    raise AssertionError(f"the shell ended at {text!r}: {said.decode('utf-8', 'replace')}")
                said += piece
        return int(found[1]), said.decode("utf-8", "replace")[: found.start()]

    def _serve(self, text: str, served: re.Match[str]) -> tuple[int, str]:
        if re.match(r"(?:rift up|onbe serve)\b", served["program"]):
            self.stop_servers()  # whoever brings one up elsewhere has stopped the other
        _, told = self._typed("env -0 | base64 -w0")
        pairs = _decoded(told).split("\0")
        env = dict(pair.partition("=")[::2] for pair in pairs if "=" in pair)
        with (self.folder / "server.log").open("a") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"{served['set']}exec {served['program']}"],
                cwd=self.folder, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        self.servers.append((text, process))
        assert process.stdout
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if READY.search(line):
                return 0, "".join(said)
        return process.wait(WITHIN), "".join(said) + (self.folder / "server.log").read_text()

    def stop_servers(self) -> None:
        """End each as Ctrl-C does, the newest first; each ends well."""
        while self.servers:
            text, process = self.servers.pop()
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=60)
            assert process.returncode == 0, (text, rest, (self.folder / "server.log").read_text())

    def close(self) -> None:
        """End the shell, and what it left."""
        for _, process in self.servers:
            process.kill()
            process.communicate()
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


def _decoded(text: str) -> str:
    import base64

    return base64.b64decode(text.strip()).decode("utf-8", "replace")
