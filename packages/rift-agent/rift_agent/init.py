"""Process 1 of the jail: starts what the agent asks for, reaps everything, tells how it ended. It decides nothing.

It imports little, because an idle box keeps it in memory. It makes itself non-dumpable, so that the commands, which
run as the same user, cannot look into it or take its socket; the agent believes nothing it says all the same.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
import _socket
import os
import select

from rift_agent import libc, messages

DOOR_PORT, PROXY_PORT = 3127, 3128
_STDIN, _STDOUT, _STDERR, _TEXT = 0, 1, 2, 9
# A text too long for one argument comes as descriptor 9. The shell reads it whole, closes 9, and runs it with no
# variable left behind.
_LONG = 'set -- "$(cat <&9)"; exec 9<&-; eval "shift\n$1"'
_OURS = 16  # processes beside the commands' own: this one, and forks of it that work on files
_SOONER = 300  # how much sooner than this process a command is killed when memory is out, of 1000


class Init:
    """The init on the inherited socket `fd`. `run` returns the process's exit code when the agent has gone."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self._agent = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, fd)
        self._running: dict[int, int] = {}  # pid → command number
        self._env: dict[bytes, bytes] = {}
        self._folders: list[bytes] = []
        self._null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._killable = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)  # once hidden, it is root's
        self._ours = os.read(self._killable, 16).strip()
        self._theirs = b"%d" % min(1000, max(0, int(self._ours)) + _SOONER)

    def run(self) -> int:
        """Serves until the agent closes its end; with process 1 the whole jail ends."""
        libc.hide()  # its memory and descriptors are closed to the jail's user; else nothing is served
        os.umask(0o022)
        wake, waker = os.pipe()
        for end in (wake, waker):
            os.set_blocking(end, False)
        _signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)  # a handler, so that the wake-up descriptor is written
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # process 1 ignores what it has no handler for
        poll = select.poll()
        poll.register(self._agent.fileno(), select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if wake in ready:
                os.read(wake, 4096)
                self._reap()
            if self._agent.fileno() in ready:
                message = messages.receive(self._agent)
                if message is None:
                    return 0
                self._obey(message)

    def _obey(self, message: messages.Message) -> None:
        try:
            if message.kind == messages.SETUP:
                self._setup(message)
            elif message.kind == messages.BASH:
                self._started(message.n, self._bash(message))
            else:
                self._started(message.n, self._file(message))
        except Exception as error:  # whatever it is: were it to end process 1, the whole box would end with it
            reason = getattr(error, "strerror", None) or str(error)
            messages.send(self._agent, messages.REFUSED, message.n, [reason.encode("utf-8", "replace")[:400]])
        finally:
            message.close()

    def _setup(self, message: messages.Message) -> None:
        """Fields: the network's kind, checkout, home, most processes (0: no limit), then the environment as
        NAME=value.
        """
        network, *folders, most = message.fields[:4]
        self._folders = [*folders, b"/"]
        self._env = dict(pair.split(b"=", 1) for pair in message.fields[4:])
        if int(most):
            import resource  # where there is no cgroup for it

            # Here, in the jail's own user namespace, it counts the jail's processes; outside, all of the host user's.
            resource.setrlimit(resource.RLIMIT_NPROC, (int(most) + _OURS, int(most) + _OURS))
        # Before anything of the jail runs, so that nobody else has the ports: the door's first.
        fds = [_listener(port) for port in ((DOOR_PORT, PROXY_PORT) if network == b"proxy" else (DOOR_PORT,))]
        messages.send(self._agent, messages.READY, 0, [], fds)
        for fd in fds:
            os.close(fd)

    def _bash(self, message: messages.Message) -> int:
        """Fields: RIFT_COMMAND's value, whether secrets come with it (1), the text. Descriptors: the output, the
        secrets as NAME=value, the text where it is too long a field.
        """
        self._enter()
        shell = next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), "/bin/sh")
        output, *text = message.fds
        secrets = _pairs(text.pop(0)) if int(message.fields[1]) else {}
        actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, self._null, _STDIN)]
        actions += [(os.POSIX_SPAWN_DUP2, output, fd) for fd in (_STDOUT, _STDERR)]
        actions += [(os.POSIX_SPAWN_DUP2, fd, _TEXT) for fd in text]
        # What is spawned inherits it; with this process the whole box would end.
        os.pwrite(self._killable, self._theirs, 0)
        try:
            return os.posix_spawn(
                shell,
                [os.path.basename(shell), "-l", "-c", _LONG if text else message.fields[2]],
                {**self._env, **secrets, b"RIFT_COMMAND": message.fields[0]},
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGCHLD, _signal.SIGINT),
            )
        finally:
            os.pwrite(self._killable, self._ours, 0)

    def _file(self, message: messages.Message) -> int:
        """A read or a write: in a fork of this process, so that a slow disk holds nobody else. Field: the path."""
        self._enter()
        pid = os.fork()
        if pid:
            return pid
        try:
            from rift_agent import files

            os.setsid()
            _signal.set_wakeup_fd(-1)
            for number in (_signal.SIGCHLD, _signal.SIGINT):
                _signal.signal(number, _signal.SIG_DFL)
            content = message.fds[1] if message.kind == messages.WRITE else None
            files.serve(os.fsdecode(message.fields[0]), content, message.fds[0])
        finally:
            os._exit(0)

    def _enter(self) -> None:
        """The folder a command starts in: the checkout, else the home, else the root."""
        for folder in self._folders:
            try:
                os.chdir(folder)
                return
            except OSError:
                continue

    def _started(self, n: int, pid: int) -> None:
        self._running[pid] = n
        messages.send(self._agent, messages.STARTED, n, [b"%d" % pid])

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            n = self._running.pop(pid, None)
            if n is not None:
                messages.send(self._agent, messages.ENDED, n, [b"%d" % status])


def _pairs(fd: int) -> dict[bytes, bytes]:
    """The variables in an anonymous file: NAME=value, each with a NUL behind it. Of this one command, kept nowhere."""
    with open(fd, "rb", closefd=False) as file:
        return dict(pair.split(b"=", 1) for pair in file.read().split(b"\0")[:-1])


def _listener(port: int) -> int:
    """A listening socket on the jail's own loopback, for the agent to accept on."""
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(128)
    return sock.detach()
