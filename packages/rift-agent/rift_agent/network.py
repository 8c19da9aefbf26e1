"""An open network: pasta carries the jail's packets, and a filter in the jail's network namespace says which.

Both are made before the jail's user runs anything: the filter first, which stays whatever becomes of pasta. The jail
has no capability over the namespace, so it changes neither. pasta runs as the box's user, forwards no port in either
direction, and dies with the agent; one that ends by itself is started again.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import select
import signal
import time

from rift_agent import libc
from rift_agent.jail import NoJail, join, memory
from rift_agent.log import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from rift_agent.config import Config

PATIENCE = 10.0  # seconds for pasta to come up
FIRST_PAUSE, LAST_PAUSE = 0.5, 60.0
PIDFILE = "pasta.pid"
RESOLVER = "192.0.0.53"  # no host has it: pasta takes what is sent to its port 53 to the host's own resolver
_NS_GET_USERNS = 0xB701
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG = 1


class Network:
    """The open network of the jail whose process 1 is `init` (host number). Opening raises NoJail or OSError."""

    def __init__(self, config: Config, init: int) -> None:
        if os.geteuid() == 0:
            raise NoJail("an open network is made by an agent with a user of its own, not by root")
        self._config = config
        self._init = init
        self._path = f"/proc/{init}/ns/net"
        self._net = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._user = fcntl.ioctl(self._net, _NS_GET_USERNS)  # who rules it: not the jail's own, which is one further in
        self._pidfile = os.path.join(config.dir, PIDFILE)

    def open(self) -> None:
        """Returns once the filter holds and packets flow. Raises NoJail with what nft or pasta said."""
        mapped(self._init)
        self._filter()
        first: list[str] = []
        settled = _thread.allocate_lock()
        settled.acquire()

        def tell(problem: str) -> None:
            first.append(problem)
            settled.release()

        # All starts are this one thread's: what pasta is told when its parent has died counts threads as parents.
        _thread.start_new_thread(self._keep, (tell,))
        settled.acquire()
        if first[0]:
            raise NoJail(f"pasta makes no network: {first[0]}")

    def _filter(self) -> None:
        output, said = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                from rift_agent.addresses import own  # here: an idle agent does without them
                from rift_agent.walls import ruleset

                rules = memory("rules", ruleset(own(), self._config.reach).encode("ascii"))
                for namespace, kind in ((self._user, _CLONE_NEWUSER), (self._net, _CLONE_NEWNET)):
                    if libc.call("setns", namespace, kind):
                        raise OSError("the jail's network cannot be entered")
                _exec([self._config.nft, "-f", "-"], rules, said)
            except BaseException as error:
                os.write(said, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(127)
        os.close(said)
        text = b""
        while part := os.read(output, 65536):
            text = (text + part)[-4096:]
        os.close(output)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise NoJail(f"the filter of the open network is not taken (exit {code}): {_shown(text)}")

    def _keep(self, tell: Callable[[str], None]) -> None:
        """Starts pasta, waits for its end, and again, for as long as the agent lives. The first start is told: "", or
        why it failed, and then there is no second.
        """
        pause, first = FIRST_PAUSE, True
        while True:
            began = time.monotonic()
            try:
                libc.hide(False)  # pasta reads below /proc/<this process>; a core there is none of all the same
                pid, output = self._start()
                problem = self._settle(pid, output)
            except OSError as error:
                pid, output, problem = 0, -1, str(error)
            finally:
                libc.hide()
            if first:
                tell(problem)
                if problem:
                    return
                first = False
            if pid:
                text = _drain(output)
                os.close(output)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                problem = problem or f"exit {code}: {_shown(text)}"
            say(f"pasta has ended and is started again: {problem}")
            pause = FIRST_PAUSE if time.monotonic() - began > LAST_PAUSE else min(pause * 2, LAST_PAUSE)
            time.sleep(pause)

    def _start(self) -> tuple[int, int]:
        """A new pasta's number, and what it says."""
        try:
            os.unlink(self._pidfile)
        except FileNotFoundError:
            pass
        output, said = os.pipe()
        parent = os.getpid()
        # The second is opened from within the first, whence nothing of this agent can be seen any more.
        words = arguments(self._config, self._pidfile, f"/proc/{parent}/fd/{self._user}", self._path)
        pid = os.fork()
        if pid == 0:
            try:
                libc.call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
                join(self._config.cgroups)  # what a jail has carried for it is of its share
                if os.getppid() == parent:
                    _exec(words, os.open("/dev/null", os.O_RDONLY), said)
            except BaseException as error:
                os.write(said, f"{words[0]} cannot be started: {error}".encode())
            finally:
                os._exit(127)
        os.close(said)
        return pid, output

    def _settle(self, pid: int, output: int) -> str:
        """Waits until pasta has written its pid file, which it does when all is set up; else what went wrong."""
        end, text = time.monotonic() + PATIENCE, b""
        while not _read(self._pidfile):
            ready, _, _ = select.select([output], [], [], 0.005)
            part = os.read(output, 65536) if ready else b""
            text = (text + part)[-4096:]
            if (ready and not part) or time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                return _shown(text) or "it said nothing"
        return ""


def mapped(init: int, patience: float = PATIENCE) -> None:
    """Returns once the users of the jail's namespace are known there. Raises NoJail after `patience` seconds.

    bwrap says which process is the jail's first as soon as there is one, and that writes the maps a moment later. Who
    enters before is nobody there, and loses every right over the network when it becomes another program.
    """
    end = time.monotonic() + patience
    while not (_read(f"/proc/{init}/uid_map") and _read(f"/proc/{init}/gid_map")):
        if not os.path.exists(f"/proc/{init}/ns/net"):
            raise NoJail("the jail ended before its network was made")
        if time.monotonic() > end:
            raise NoJail("bwrap did not say in time who is who in the jail")
        time.sleep(0.001)


def arguments(config: Config, pidfile: str, user: str, net: str) -> list[str]:
    """pasta's command line: no port in or out, no way to the host's own addresses, its own name service at RESOLVER."""
    words = [config.pasta, "--foreground", "--quiet", "--config-net", "--no-map-gw", "--no-netns-quit"]
    for way in ("-t", "-u", "-T", "-U"):
        words += [way, "none"]
    words += ["--ns-ifname", "eth0", "--dns-forward", RESOLVER, "--pid", pidfile]
    return [*words, "--userns", user, "--netns", net]


def _exec(words: list[str], stdin: int, said: int) -> None:
    for source, target in ((stdin, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(words[0], words)


def _drain(output: int) -> bytes:
    """The last of what pasta says until its end: what it says may be a jail's doing, so no more of it is kept."""
    text = b""
    while part := os.read(output, 65536):
        text = (text + part)[-2048:]
    return text


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()
