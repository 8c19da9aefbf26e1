"""Beside the jail in which an environment is built: one command in one jail, from its start to its end.

`warden` reads one line of JSON on standard input and does what it says; the end of standard input is the end of all
that it started. Its answer is one line of JSON on standard output:
`{"code": n, "out": "…", "refused": ["…", …], "over": "", "why": "…"}`; `refused` are the proxy's sentences, `over` is
"log", "out" or "disk" where that grew too large and the command was ended for it, `why` what the kernel counts, or "".

The job: `{"join": […], "uid": n|null, "gid": n, "log": fd, "log_most": n, "out_most": n, "feed": fd|null,
"options": […], "data": [{"target", "text"}], "words": […], "config": {…}}`. `config` is as in `agent.json`: its limits,
its groups, and what its proxy lets through. What is done before `_drop` is all that is done as root.
"""

from __future__ import annotations

import array
import json
import os
import select
import signal
import socket
import sys
import time

from rift_agent import jail, libc, proxy, seccomp
from rift_agent.causes import Causes
from rift_agent.config import Config
from rift_agent.disk import Disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_NO_NEW_PRIVS = 38
_CHUNK = 65536
_LINE_MOST = 4 << 20
# What Nix says of every build here, and what is not so: it takes having no network but a proxy for having none.
_NOISE = (
    b"warning: you don't have Internet access; disabling some network-dependent features\n",
    b"warning: you did not specify '--add-root'; the result might be removed by the garbage collector\n",
)

# The first program in the jail: takes what only the jail's own user space can hold to, opens the proxy's door and hands
# it out, and becomes the command.
INSIDE = """
import array, os, resource, socket, sys
fd, most = int(sys.argv[1]), int(sys.argv[2])
if most:
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
if fd >= 0:
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", 3128))
    door.listen(64)
    line = socket.socket(fileno=fd)
    line.sendmsg([b"d"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [door.fileno()]))])
    line.recv(1)
    line.close()
    door.close()
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Watched:
    """One command in its jail, and what it says."""

    def __init__(self, job: dict[str, Any], config: Config) -> None:
        self._job = job
        self._config = config
        self._log: int = job["log"]
        self._left: int = job["log_most"]
        self._out = bytearray()
        self._over = ""
        self._poll = select.poll()
        self._ready: dict[int, Callable[[], None]] = {}
        self._causes = Causes(config)
        self._door = -1
        self._line: socket.socket | None = None
        self.pid = 0

    def run(self) -> dict[str, Any]:
        """Runs the command to its end; the answer."""
        ours, theirs = os.pipe()
        said, saying = os.pipe()
        self._start(theirs, saying)
        for fd in (theirs, saying):
            os.close(fd)
        ended = os.pidfd_open(self.pid)
        disk = Disk(self._config, sys.argv[0], lambda: 0, self._watch, self._unwatch, self._full)
        disk.wake()
        self._watch(0, self._end)  # nothing is ever sent after the job: this is its end
        self._watch(ours, lambda: self._take(ours))
        self._watch(said, lambda: self._say(said))
        self._watch(ended, lambda: None)
        if self._line is not None:
            self._watch(self._line.fileno(), self._opened)
        while True:
            now = time.monotonic()
            due = disk.tick(now, True)
            happened = [fd for fd, _ in self._poll.poll(max(10.0, min(1000.0, (due - now) * 1000)))]
            for fd in happened:
                if fd in self._ready:
                    self._ready[fd]()
            if ended in happened:
                break
        _, status = os.waitpid(self.pid, 0)
        for fd, take in ((ours, self._take), (said, self._say)):
            while fd in self._ready:  # what is left in the pipes; whoever wrote is gone
                take(fd)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "out": self._out.decode("utf-8", "replace"),
            "refused": proxy.lately(),
            "over": self._over,
            "why": self._causes.of_box(),
        }

    def _watch(self, fd: int, ready: Callable[[], None]) -> None:
        self._ready[fd] = ready
        self._poll.register(fd, select.POLLIN)

    def _unwatch(self, fd: int) -> None:
        del self._ready[fd]
        self._poll.unregister(fd)

    def _start(self, out: int, said: int) -> None:
        job = self._job
        fds, options = [], list(job["options"])
        for data in job["data"]:
            fds.append(jail.memory("data", data["text"].encode()))
            options += ["--ro-bind-data", str(fds[-1]), data["target"]]
        options += ["--remount-ro", "/dev", "--remount-ro", "/"]
        fds.append(jail.memory("arguments", "".join(f"{option}\0" for option in options).encode()))
        words = [self._config.bwrap, "--args", str(fds[-1])]
        filter_fd = seccomp.descriptor()
        if filter_fd is not None:
            fds.append(filter_fd)
            words += ["--seccomp", str(filter_fd)]
        door = -1
        if self._config.network == "proxy":
            self._line, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            door = inner.detach()
            fds.append(door)
        processes = self._config.limits.get("processes")
        most = processes.value if processes and processes.by == "rlimit" else 0
        words += ["--", self._config.python, "-I", "-S", "-c", INSIDE, str(door), str(most), *job["words"]]
        self.pid = os.fork()
        if self.pid == 0:
            _become(self._config, words, fds, (job["feed"], out, said))
        for fd in fds:
            os.close(fd)

    def _opened(self) -> None:
        """The jail's door is handed out; from here on, what comes in by it is served."""
        assert self._line is not None
        try:
            _, ancillary, _, _ = self._line.recvmsg(1, socket.CMSG_SPACE(4))
        except OSError:
            ancillary = []
        handed = [data for level, kind, data in ancillary if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)]
        self._unwatch(self._line.fileno())
        if handed:
            numbers = array.array("i")
            numbers.frombytes(handed[0][: numbers.itemsize])
            self._door = numbers[0]
            os.set_blocking(self._door, False)
            self._watch(self._door, lambda: proxy.accept(self._door, self._config, _noted))
            self._line.send(b"!")
        self._line.close()

    def _take(self, fd: int) -> None:
        data = self._read(fd)
        self._out += data[: self._job["out_most"] - len(self._out)]
        if data and len(self._out) >= self._job["out_most"]:
            self._too_much("out")

    def _say(self, fd: int) -> None:
        data = self._read(fd)
        kept = data
        for noise in _NOISE:
            kept = kept.replace(noise, b"")
        kept = kept[: self._left]
        self._left -= len(kept)
        view = memoryview(kept)
        while view:
            view = view[os.write(self._log, view) :]
        if data and not self._left:
            self._too_much("log")

    def _read(self, fd: int) -> bytes:
        data = os.read(fd, _CHUNK)
        if not data:
            self._unwatch(fd)
            os.close(fd)
        return data

    def _full(self, grows: bool) -> None:
        self._too_much("disk")

    def _too_much(self, what: str) -> None:
        self._over = self._over or what
        self._kill()

    def _end(self) -> None:
        """Whoever wanted this has gone, or wants it no more."""
        self._kill()
        os._exit(0)

    def _kill(self) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)  # the jail dies with it
        except ProcessLookupError:
            pass


def _noted(host: str, port: int, why: str) -> None:
    """Nothing: the proxy itself keeps what it refused lately."""


def _become(config: Config, words: list[str], fds: list[int], streams: tuple[int | None, int, int]) -> None:
    """In the forked child: joins the groups, takes the limits, and is bwrap from here on."""
    try:
        feed = os.open("/dev/null", os.O_RDONLY) if streams[0] is None else streams[0]
        for source, target in ((feed, 0), (streams[1], 1), (streams[2], 2)):
            os.dup2(source, target)
        libc.call("prctl", 1, int(signal.SIGKILL), 0, 0, 0)
        jail.join(config.cgroups)
        jail.limit(config)
        for fd in fds:
            os.set_inheritable(fd, True)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execv(words[0], ["bwrap", *words[1:]])  # where it stands is nothing that the jail needs to know
    except BaseException as error:
        os.write(2, f"{words[0]} cannot be started: {error}\n".encode())
    finally:
        os._exit(127)


def _drop(job: dict[str, Any]) -> None:
    """Joins the groups of the warden, and gives root away for good where there is root."""
    for path in job["join"]:
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
    if job["uid"] is not None:
        os.setgroups([])
        os.setresgid(job["gid"], job["gid"], job["gid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])
    if os.geteuid() == 0:
        raise OSError("an environment is never built as root")
    libc.call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    os.umask(0o022)


def main() -> int:
    """Does one job. Returns the exit code."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, _CHUNK)
        line += part
        if not part or len(line) > _LINE_MOST:
            return 2
    job = json.loads(line)
    try:
        _drop(job)
        answer = Watched(job, Config(job["config"])).run()
    except OSError as error:
        answer = {"error": f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")}
    text = json.dumps(answer).encode() + b"\n"
    while text:
        text = text[os.write(1, text) :]
    return 0
