"""The jail: one bwrap call made from agent.json, and the socket to its process 1."""

from __future__ import annotations

import json
import os
import signal
import socket

from rift_agent import __main__ as program
from rift_agent import messages, seccomp
from rift_agent.processes import Jail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rift_agent.config import Config

INSIDE = "/run/rift/agent.pyz"  # where the jail sees this program


class NoJail(Exception):
    """The jail could not be made; the text says why."""


def arguments(config: Config, archive: str) -> list[str]:
    """bwrap's options for this box, in the order they are to be done; `archive` is this program's file on the host."""
    options = ["--unshare-all", "--die-with-parent", "--as-pid-1", "--new-session", "--uid", "1000", "--gid", "1000"]
    options += ["--cap-drop", "ALL", "--hostname", config.hostname, "--clearenv"]
    for mount in config.mounts:
        kind, target = mount["kind"], mount["target"]
        if kind == "overlay":
            options += ["--overlay-src", mount["source"], "--overlay", mount["upper"], mount["work"], target]
        elif kind in ("ro", "rw"):
            options += ["--ro-bind" if kind == "ro" else "--bind", mount["source"], target]
        elif kind == "symlink":
            options += ["--symlink", mount["source"], target]
        elif kind == "tmpfs" and "size" in mount:
            options += ["--size", mount["size"], "--tmpfs", target]
        else:
            options += [f"--{kind}", target]
    options += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", archive, INSIDE]
    if "memory" in config.limits:
        options += ["--size", str(shared_memory(config)), "--tmpfs", "/dev/shm"]
    ours = os.path.dirname(INSIDE)
    if any(mount["target"] == ours for mount in config.mounts):
        options += ["--remount-ro", ours]  # else its owner, the jail's user, puts other programs in our programs' place
    # The memory these two are made of is nobody's disk and, without a cgroup, nobody's limit.
    return [*options, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]


def shared_memory(config: Config) -> int:
    """The bytes that /dev/shm holds: half of the box's memory."""
    return config.limits["memory"].value // 2


class Running:
    """A jail that has been started: bwrap's `pid`, the `socket` to its init, the `stderr` of both, its `processes`."""

    def __init__(self, config: Config, archive: str) -> None:
        """Starts bwrap. Raises NoJail or OSError; a jail that fails later shows by the end of `socket`."""
        if os.geteuid() == 0 and config.uid <= 0:
            raise NoJail("the agent runs as root and agent.json names no uid: a jail must never be the host's root")
        self._cgroups = config.cgroups
        self.processes: Jail | None = None
        self.socket, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setblocking(False)
        self.stderr, stderr = os.pipe()
        self._info, info = os.pipe()
        options = memory("arguments", "".join(f"{option}\0" for option in arguments(config, archive)).encode())
        fds = [inner.fileno(), info, options]
        words = [config.bwrap, "--args", str(options), "--info-fd", str(info)]
        filter_fd = seccomp.descriptor()
        if filter_fd is not None:
            fds.append(filter_fd)
            words += ["--seccomp", str(filter_fd)]
        words += ["--", *program.words(config.python, INSIDE, "init", str(inner.fileno()))]
        self.pid = os.fork()
        if self.pid == 0:
            _become(config, words, fds, stderr)
        inner.close()
        for fd in (stderr, *fds[1:]):
            os.close(fd)

    def settled(self) -> None:
        """Learns the host number of process 1 from bwrap. Raises NoJail."""
        with open(self._info, "rb") as file:
            try:
                self.processes = Jail(int(json.loads(file.read(65536))["child-pid"]))
            except (OSError, ValueError, KeyError):
                raise NoJail("bwrap did not say which process is the jail's first") from None

    def kill(self) -> None:
        """Ends every process of the jail. Waits until the last is gone."""
        for group in self._cgroups:
            try:
                with open(f"{group}/cgroup.kill", "w", encoding="ascii") as file:
                    file.write("1")  # bwrap too, which in a frozen cgroup could not notice that its child has died
            except OSError:
                pass  # of the first kind, a kernel before 5.14, or the driver's alone to end
        if self.processes:
            self.processes.kill()
        elif self.pid:
            os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """bwrap's exit code, once it has ended: it waits for process 1, whose end is the end of the whole namespace."""
        if self.pid:
            _, self.status = os.waitpid(self.pid, 0)
            self.pid = 0
        return os.waitstatus_to_exitcode(self.status)


def lend(config: Config, fd: int) -> None:
    """Gives a pipe of a root agent to the jail's user, who could else not open /dev/stdout."""
    if config.uid > 0 and os.geteuid() == 0:
        os.fchown(fd, config.uid, config.uid)


def memory(name: str, content: bytes) -> int:
    """A descriptor of an anonymous file with that content, at its beginning, closed on exec unless it is handed on."""
    fd = os.memfd_create(f"rift-{name}", os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def setup(config: Config) -> list[bytes]:
    """The fields of the first message to the init."""
    processes = config.limits.get("processes")
    most = processes.value if processes and processes.by == "rlimit" else 0
    fields = [config.network, config.checkout, config.home, str(most)]
    fields += [f"{name}={value}" for name, value in config.env.items()]
    return [os.fsencode(field) for field in fields]


def start(running: Running, config: Config) -> None:
    """Sends the init its first message. Raises OSError."""
    messages.send(running.socket, messages.SETUP, 0, setup(config))


def _become(config: Config, words: list[str], fds: list[int], stderr: int) -> None:
    """In the forked child: joins the box's cgroups, gives up root, takes its limits, and is bwrap from here on."""
    try:
        null = os.open("/dev/null", os.O_RDWR)
        for source, target in ((null, 0), (null, 1), (stderr, 2)):
            os.dup2(source, target)
        join(config.cgroups)
        if config.uid > 0 and os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(config.uid, config.uid, config.uid)
            os.setresuid(config.uid, config.uid, config.uid)
        limit(config)
        for fd in fds:
            os.set_inheritable(fd, True)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(words[0], words)
    except BaseException as error:
        os.write(2, f"{words[0]} cannot be started: {error}\n".encode())
    finally:
        os._exit(127)


def join(groups: list[str]) -> None:
    """Puts this process into the cgroups that hold the box's limits. Raises OSError: no box runs without them."""
    for group in groups:
        # `tasks`, of the first kind, takes one thread, which this process has, without a wait for the whole machine.
        name = f"{group}/tasks" if os.path.exists(f"{group}/tasks") else f"{group}/cgroup.procs"
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, b"0")
        os.close(fd)


def limit(config: Config) -> None:
    """Takes the limits that a process passes on to all that come from it; how many there may be, the init takes."""
    import resource  # in this child alone: an idle agent does not keep it

    # No core of a program that has secrets: 1 is the one value by which the kernel hands none to a program either.
    wanted = {resource.RLIMIT_CORE: 1}
    for name, kind in (("open_files", resource.RLIMIT_NOFILE), ("disk", resource.RLIMIT_FSIZE)):
        if name in config.limits:
            wanted[kind] = config.limits[name].value
    if "memory" in config.limits and config.limits["memory"].by == "rlimit":
        wanted[resource.RLIMIT_DATA] = config.limits["memory"].value
    for kind, value in wanted.items():
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(kind, (value, value))
    if config.nice:
        os.nice(config.nice)
