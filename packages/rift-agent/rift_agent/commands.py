"""One command from its start to its one ended event, and the commands of a box together.

A command ends when its shell exits: what is in the pipe at that moment is its output's end. What still holds the pipe
lives on; its bytes are read and dropped. A timeout or a stop ends all the command's processes: TERM, after 5 s KILL,
looked at until none is left.
"""

from __future__ import annotations

import binascii
import fcntl
import os
import signal
import struct
import time

from rift_agent import files, messages
from rift_agent.causes import Causes
from rift_agent.jail import lend, memory
from rift_agent.kept import Kept
from rift_agent.log import say
from rift_agent.processes import select
from rift_agent.spool import CHUNK, PIPE_SIZE, new_pipe, size_pipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from rift_agent.causes import Counted
    from rift_agent.config import Config
    from rift_agent.disk import Disk
    from rift_agent.jail import Running
    from rift_agent.masking import Mask
    from rift_agent.processes import Process
    from rift_agent.spool import Spool, Spools

    Watch = Callable[[int, Callable[[], None]], None]

LONG_TEXT = 32768  # bytes; a longer command's text goes in a file, being too long for a message or an argument
SMALL_PIPE = 1 << 16
GRACE = 5.0  # seconds between TERM and KILL, and from KILL to giving up
STOPS = 32  # looks for processes that are not stopped yet, before those that were found are killed
_FIONREAD = 0x541B  # in `termios`, which would cost 250 KiB for this one number
_MUCH = 1 << 15  # bytes of one read after which there is probably more
_FOREVER = float("inf")
_KINDS = {"bash": messages.BASH, "read": messages.READ, "write": messages.WRITE}


class Command:
    """One open command. `due` is the moment of the monotonic clock at which `Commands` looks at it again."""

    __slots__ = ("answer", "before", "cause", "due", "inner", "kill_at", "kind", "mask", "n", "output", "pause",
                 "spool", "status", "termed", "timeout", "times")  # fmt: skip

    def __init__(self, n: int, kind: str, timeout: int, spool: Spool, before: Counted) -> None:
        self.n = n
        self.before = before
        self.kind = kind
        self.timeout = timeout
        self.spool = spool
        self.output = -1  # our end of its pipe, -1 again once every writer has closed theirs
        self.due = time.monotonic() + timeout
        self.inner = 0  # its first process, as the jail numbers it
        self.status: int | None = None
        self.cause = ""  # why it is being ended, once it is
        self.kill_at = _FOREVER
        self.pause = 0.0
        self.termed: set[int] = set()
        self.times: list[float] = []  # of one that is traced: taken, begun
        self.answer = bytearray()  # of a read or write: the line and the bytes
        self.mask: Mask | None = None  # what takes secrets out of its output


class Commands:
    """The open commands of a box. `watch(fd, ready)` and `unwatch(fd)` are the loop's, `tell` takes events."""

    def __init__(self, config: Config, jail: Running, spools: Spools, tell: Callable[[dict[str, Any]], None],
                 watch: Watch, unwatch: Callable[[int], None]) -> None:  # fmt: skip
        self._config = config
        self._jail = jail
        self._spools = spools
        self._tell = tell
        self._watch = watch
        self._unwatch = unwatch
        self._open: dict[int, Command] = {}
        self.causes = Causes(config)
        self.disk: Disk | None = None
        self.kept = Kept()

    def keep(self, secrets: dict[str, str]) -> None:
        """These are the secrets from the next command on; those that are open show none of them either."""
        self.kept.keep(secrets)
        for command in self._open.values():
            command.mask = self.kept.mask(command.mask)

    def numbers(self) -> list[int]:
        """The open commands."""
        return sorted(self._open)

    def start(self, order: dict[str, Any]) -> None:
        """Starts what the control plane ordered; whatever goes wrong is told as the command's end."""
        n, kind = int(order["n"]), str(order["kind"])
        command = Command(n, kind, int(order["timeout"]), self._spools.new(n), self.causes.now())
        if order.get("trace"):
            command.times.append(time.time())
        command.mask = self.kept.mask()
        self._open[n] = command
        if self.disk:
            self.disk.wake()
        fds: list[int] = []
        try:
            command.output, inner_end = new_pipe()
            fds.append(inner_end)
            os.set_blocking(command.output, False)
            lend(self._config, inner_end)
            if kind == "bash":
                secrets = self.kept.descriptors()
                fds += secrets
                fields = [self._tag(n).encode(), b"%d" % len(secrets), order["command"].encode()]
                if len(fields[2]) > LONG_TEXT:
                    fds.append(memory("text", fields.pop()))
            else:
                fields = [os.fsencode(order["path"])]
                if kind == "write":
                    fds.append(memory("content", order["content"].encode()))
            messages.send(self._jail.socket, _KINDS[kind], n, fields, fds)
        except (OSError, ValueError, KeyError) as error:
            if command.output >= 0:
                os.close(command.output)
                command.output = -1
            self._end(command, f"it could not be started: {error}")
        else:
            self._watch(command.output, lambda: self._ready(command))
        finally:
            for fd in fds:
                os.close(fd)

    def stop(self, n: int, cause: str = "stopped by rift_stop", grace: float = GRACE) -> None:
        """Ends a command's processes, and with the last of them the command. One that is not open is left alone."""
        command = self._open.get(n)
        if command and not command.cause:
            command.cause = cause
            command.kill_at = time.monotonic() + grace
            self._sweep(command)

    def full(self, grows: bool) -> None:
        """The box holds more than its disk limit: what runs ends. New commands may come, to delete something.

        What `grows` all the same has something in the background to blame: everything ends but the first process.
        """
        say(f"{self._disk_full()}; ending {'everything' if grows else 'the open commands'}")
        for n in self.numbers():
            self.stop(n, self._disk_full(), 0.5)
        if grows:
            self._end_everything()

    def _end_everything(self) -> None:
        """Ends every process but the first, whoever started it."""
        jail = self._jail.processes
        for process in jail.processes(tags=False) if jail else ():
            if jail and process.pid != jail.init:
                jail.signal(process, signal.SIGKILL)

    def _room(self) -> str:
        """Makes room for the next command, where what an ended one left in the background keeps any from starting."""
        if len(self._open) > 1 or not self.causes.crowded():
            return ""
        self._end_everything()
        return "; what ran in the background was ended, so that the next can start"

    def _disk_full(self) -> str:
        return self.causes.disk_full() + (self.disk.what() if self.disk else "")

    def hear(self, message: messages.Message) -> None:
        """What the init says of a command. It may say anything, so only what fits an open command counts."""
        command = self._open.get(message.n)
        if not command or command.status is not None:
            return
        value = message.fields[0] if message.fields else b""
        if message.kind == messages.REFUSED:
            self._end(command, f"it could not be started: {value[:200].decode('utf-8', 'replace')}{self._room()}")
        elif message.kind == messages.STARTED and value.isdigit() and not command.inner:
            command.inner = int(value[:10])
            if command.times:
                command.times.append(time.time())
        elif message.kind == messages.ENDED and value.isdigit():
            command.status = int(value[:10]) & 0xFFFF
            if command.cause:
                self._sweep(command)
            else:
                self._end(command)

    def tick(self) -> float | None:
        """Does what is due. Returns the seconds until something is again, or None."""
        now = time.monotonic()
        look = self.disk.tick(now, bool(self._open)) if self.disk else _FOREVER
        for command in [c for c in self._open.values() if c.due <= now]:
            if command.cause:
                self._sweep(command)
            else:
                self.stop(command.n, f"timeout: stopped after {command.timeout} s")
        due = min((c.due for c in self._open.values()), default=_FOREVER)
        return None if due == look == _FOREVER else max(0.0, min(due, look) - now)

    def end_all(self, reason: str) -> None:
        """The jail is gone: every open command ends without an exit code."""
        for command in list(self._open.values()):
            self._end(command, reason)

    def _sweep(self, command: Command) -> None:
        """One look at a command that is being ended: signals what is left of it, or ends it when nothing is."""
        now = time.monotonic()
        left = self._left(command)
        if not left and command.status is not None:
            self._end(command)
            return
        killing = now >= command.kill_at
        if now >= command.kill_at + GRACE:
            numbers = ", ".join(str(p.inner) for p in left[:10]) or "its shell"
            command.cause += f"; still there after KILL: process {numbers}"
            self._end(command, command.cause if command.status is None else "")
            return
        if killing:
            self._kill(command, left)
        for process in () if killing else left:
            if process.pid not in command.termed:
                command.termed.add(process.pid)
                self._signal(process, signal.SIGTERM)
                self._signal(process, signal.SIGCONT)  # a stopped process hears TERM only when it goes on
        command.pause = min(command.pause * 2 or 0.002, 0.05)
        command.due = now + command.pause
        if not killing:
            command.due = min(command.due, command.kill_at)

    def _kill(self, command: Command, left: list[Process]) -> None:
        """Ends them. All are stopped before any is killed: where each of them forks, those not yet killed would be
        ahead for ever, and each place that became free would be taken at once.
        """
        stopped: set[int] = set()
        for _ in range(STOPS):
            fresh = [process for process in left if process.pid not in stopped]
            if not fresh:
                break
            for process in fresh:
                self._signal(process, signal.SIGSTOP)
            stopped.update(process.pid for process in fresh)
            left = self._left(command)
        for process in left:
            self._signal(process, signal.SIGKILL)

    def _left(self, command: Command) -> list[Process]:
        """The living processes of a command."""
        jail = self._jail.processes
        if jail is None:
            return []
        everyone = jail.processes()
        shells = {p.inner: p.pid for p in everyone if p.parent == jail.init}
        others = [shells[c.inner] for c in self._open.values() if c is not command and c.inner in shells]
        root = shells.get(command.inner, 0)
        mine = select(everyone, jail.init, root, self._tag(command.n), others)
        return [p for p in everyone if p.pid in mine and p.alive]

    def _tag(self, n: int) -> str:
        """What RIFT_COMMAND says in the command's processes."""
        return f"{self._config.box}.{n}"

    def _signal(self, process: Process, number: int) -> None:
        if self._jail.processes:
            self._jail.processes.signal(process, number)

    def _ready(self, command: Command) -> None:
        """Reads what is there, some of what comes meanwhile, and leaves the rest to the next round."""
        for _ in range(16):
            if self._drain(command) < _MUCH:
                return

    def _drain(self, command: Command, limit: int = PIPE_SIZE) -> int:
        """Reads once, up to `limit` bytes, and keeps them while the command is open. Returns how many."""
        if command.output < 0:
            return 0
        keeps = self._open.get(command.n) is command
        try:
            if keeps and command.kind == "bash" and not command.mask:
                count = self._spools.fill(command.spool, command.output, limit)
            else:
                data = os.read(command.output, min(limit, CHUNK))
                count = len(data)
                if keeps and command.mask and command.kind == "bash":
                    self._spools.write(command.spool, memoryview(command.mask.feed(data)))
                elif keeps:
                    command.answer += data[: files.ANSWER_LIMIT - len(command.answer)]
        except BlockingIOError:
            return 0
        if not count:
            self._unwatch(command.output)
            os.close(command.output)
            command.output = -1
        return count

    def _end(self, command: Command, instead: str = "") -> None:
        """The one terminal event, after what is in the pipe now. `instead`: the reason of an end without an exit."""
        waiting = 0
        if command.output >= 0:
            (waiting,) = struct.unpack("i", fcntl.ioctl(command.output, _FIONREAD, b"\0\0\0\0"))
        while waiting > 0:
            count = self._drain(command, waiting)
            if not count:
                break
            waiting -= count
        if command.output >= 0:
            size_pipe(
                command.output, SMALL_PIPE
            )  # a background child may hold it for days, and a user's share is bounded
        event: dict[str, Any] = {"type": "ended", "n": command.n, "exit": None, "reason": instead or None}
        if command.times:
            event["times"] = [*command.times, time.time()]
        if command.mask and command.kind == "bash":
            self._spools.write(command.spool, memoryview(command.mask.flush()))
        if not instead:
            event["exit"], event["reason"] = _outcome(command)
        if command.kind != "bash" and event["exit"] == 0:
            self._file_outcome(command, event)
        spool = command.spool
        tail = spool.tail()
        event["reason"] = self._reason(command, event, tail)
        if event["reason"]:
            event["reason"] = self.kept.text(event["reason"])
        self._spools.end(spool)
        del self._open[command.n]
        event["size"] = spool.size
        event["tail"] = binascii.b2a_base64(tail, newline=False).decode()
        self._tell(event)

    def _reason(self, command: Command, event: dict[str, Any], tail: bytes) -> str | None:
        """Why it ended so: its own end, where no limit explains that, and the limits that it met."""
        reason, code = event["reason"], event["exit"]
        found = self.causes.of_command(command.before, code, tail if code is not None else (reason or "").encode())
        if found and not command.cause and found[0].startswith(("killed", "disk full")):
            reason = None  # "killed by signal 9" is what the limit's sentence says better
        if command.kind != "bash" and (reason or "").startswith("disk full"):
            found.append(self.causes.space())
        if command.spool.full:
            found.append(f"disk full: the first {command.spool.first} bytes of the output were lost")
        if self.disk and self.disk.over() and not (reason or "").startswith("disk full"):
            found.append(f"{self._disk_full()}: delete something, or every command that writes will be ended")
        return "; ".join(filter(None, [reason, *found])) or None

    def _file_outcome(self, command: Command, event: dict[str, Any]) -> None:
        """A read or write says in one line how it went; the bytes after it are the output."""
        line, _, data = bytes(command.answer).partition(b"\n")
        word, _, rest = line.decode("utf-8", "replace").partition(" ")
        if word != "ok":
            event["exit"], event["reason"] = 1, rest or "the file could not be worked on"
            return
        command.answer.clear()
        if command.mask:
            data = command.mask.secrets.whole(data)
        self._spools.write(command.spool, memoryview(data))
        if rest in ("image/png", "image/jpeg", "image/gif", "image/webp"):
            event["media"] = rest


def _outcome(command: Command) -> tuple[int, str | None]:
    """(exit, reason) of a command whose first process has ended."""
    status = command.status or 0
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status), command.cause or None
    number = os.WTERMSIG(status)
    try:
        name = signal.Signals(number).name[3:]
    except ValueError:
        name = "real-time"
    return 128 + number, command.cause or f"killed by signal {number} ({name})"
