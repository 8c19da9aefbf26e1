"""The agent's loop: one thread that owns the jail, its pipes and its timers. It sleeps until something happens."""

from __future__ import annotations

import _thread
import binascii
import collections
import os
import selectors
import signal
import sys

from rift_agent import author, control, jail, libc, messages
from rift_agent.commands import Commands
from rift_agent.config import BadConfig, Config, load
from rift_agent.disk import Disk
from rift_agent.jail import NoJail
from rift_agent.log import say
from rift_agent.power import Power
from rift_agent.refused import Refused
from rift_agent.spool import Spools
from rift_agent.uplink import Uplink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

ASK_LIMIT = 1 << 20  # bytes one answer to an ask gives at most
STDERR_KEPT = 4096
SETUP = 0  # the number that the repository's setup has among the commands, which begin with 1
SETUP_DONE = "setup.done"  # in the box's folder, out of its jail's reach: the setup has run to its end once


class Mailbox:
    """What other threads and signal handlers leave for the loop; `fd` is readable while there is something."""

    def __init__(self) -> None:
        self.fd, self.waker = os.pipe()
        for end in (self.fd, self.waker):
            os.set_blocking(end, False)
        self._letters: collections.deque[tuple[str, Any]] = collections.deque()

    def put(self, kind: str, value: Any) -> None:
        """From any thread."""
        self._letters.append((kind, value))
        try:
            os.write(self.waker, b"x")
        except BlockingIOError:
            pass  # it is readable already

    def take(self) -> list[tuple[str, Any]]:
        """Everything there is."""
        try:
            os.read(self.fd, 65536)
        except BlockingIOError:
            pass
        letters = []
        while self._letters:
            letters.append(self._letters.popleft())
        return letters


class Agent:
    """The agent of one box, in one incarnation. `run` returns the process's exit code."""

    def __init__(self, config: Config, archive: str) -> None:
        self._config = config
        self._archive = archive
        self._mailbox = Mailbox()
        self._selector = selectors.DefaultSelector()
        self._power = Power(config)
        self._uplink = Uplink(config, self._mailbox.put, self._power.apply)
        self._spools = Spools("spool", config.spool_limit, config.spool_total)
        self._control = control.listen()
        self._jail: jail.Running | None = None
        self._commands: Commands | None = None
        self._stderr = b""
        self._ready = False  # the jail answers
        self._up = False  # and its repository's setup is behind it
        self._closing = False  # the jail is gone; what happened is still being told
        self._exit: int | None = None
        self._quitting: list[tuple[_thread.LockType, _thread.LockType]] = []

    def run(self) -> int:
        """Until the box is over (0), somebody ends the agent (0), or the jail fails (1)."""
        signal.set_wakeup_fd(self._mailbox.waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._mailbox.put("quit", None))
        try:
            self._make_jail()
        except (NoJail, OSError, ValueError) as error:
            self._fail(str(error))
        self._uplink.start_posting()
        self._watch(self._mailbox.fd, self._read_mail)
        self._watch(self._control.fileno(), lambda: control.accept(self._control, self._answer_driver))
        while self._exit is None:
            if self._power.frozen and self._commands and self._commands.disk:
                self._commands.disk.rest()
            timeout = self._commands.tick() if self._commands else None
            for key, _ in self._selector.select(timeout):
                if self._selector.get_map().get(key.fd) is key:  # an earlier one of this round may have closed it
                    key.data()
        if self._jail and not self._closing:
            self._jail.kill()
        for gone, told in self._quitting:
            gone.release()
            told.acquire(timeout=1)
        return self._exit

    def _watch(self, fd: int, ready: Callable[[], None]) -> None:
        self._selector.register(fd, selectors.EVENT_READ, ready)

    def _unwatch(self, fd: int) -> None:
        self._selector.unregister(fd)

    def _make_jail(self) -> None:
        running = self._jail = jail.Running(self._config, self._archive)
        self._watch(running.stderr, self._read_stderr)
        running.settled()
        self._power.jail = running.processes
        self._commands = Commands(self._config, running, self._spools, self._tell, self._watch, self._unwatch)
        disk = Disk(self._config, self._archive, self._init, self._watch, self._unwatch, self._commands.full)
        self._commands.disk = disk
        self._watch(running.socket.fileno(), self._hear)
        if self._config.network == "open":
            from rift_agent.network import Network

            assert running.processes
            Network(self._config, running.processes.init).open()
        jail.start(running, self._config)

    def _init(self) -> int:
        """The host number of the jail's first process."""
        return self._jail.processes.init if self._jail and self._jail.processes else 0

    def _hear(self) -> None:
        """One message of the init, or its end."""
        assert self._jail
        assert self._commands
        try:
            message = messages.receive(self._jail.socket)
        except (messages.Malformed, BlockingIOError):
            return
        if message is None:
            self._fail("the jail's first process has ended")
            return
        if message.kind == messages.READY and not self._ready:
            self._ready = True
            self._open_doors(message.fds)
            if self._config.setup and not os.path.exists(SETUP_DONE):
                self._commands.start(
                    {"n": SETUP, "kind": "bash", "command": self._config.setup, "timeout": self._config.setup_seconds}
                )
            else:
                self._come_up()
        elif self._ready:
            self._commands.hear(message)
        message.close()

    def _come_up(self) -> None:
        self._up = True
        self._uplink.tell({"type": "up"})
        self._uplink.start_working()

    def _tell(self, event: dict[str, Any]) -> None:
        """What the commands tell; the end of the repository's setup is for the agent alone."""
        if event["n"] != SETUP:
            self._uplink.tell(event)
        elif not self._closing:
            from rift_agent import setup

            failure = setup.ended(event, self._spools, self._config.setup_seconds)
            if failure:
                self._end_jail(str(failure["reason"]), failure)
            else:
                self._come_up()

    def _open_doors(self, listeners: list[int]) -> None:
        """Accepts on the jail's own loopback, for git and the verbs and for the proxy; the code of each is loaded by
        its first connection.
        """

        def note(host: str, port: int, why: str) -> None:
            secret = self._commands is not None and self._commands.kept.names(host)
            refused.note("" if secret else host, port, why)

        def at_door(listener: int) -> None:
            from rift_agent import door

            door.accept(listener, self._config)

        def at_proxy(listener: int) -> None:
            from rift_agent import proxy

            proxy.accept(listener, self._config, note)

        if self._config.network == "proxy" and len(listeners) > 1:
            refused = Refused(self._uplink.tell, self._uplink.unsent)
            self._accept("the proxy", listeners.pop(1), at_proxy)
        if listeners:
            self._accept("the door", listeners.pop(0), at_door)

    def _accept(self, name: str, listener: int, serve: Callable[[int], None]) -> None:
        def ready() -> None:
            try:
                serve(listener)
            except OSError as error:
                say(f"{name} has ended: {error}")
                self._unwatch(listener)
                os.close(listener)

        os.set_blocking(listener, False)
        self._watch(listener, ready)

    def _read_mail(self) -> None:
        for kind, value in self._mailbox.take():
            if kind in ("over", "quit"):
                self._exit = 0
                if value is not None:
                    self._quitting.append(value)
            elif kind == "author":
                self._note_author(value)
            elif kind == "secrets" and self._commands:
                self._commands.keep(value)
            elif kind == "command" and self._commands and not self._closing:
                self._commands.start(value)
            elif kind == "stop" and self._commands:
                self._commands.stop(value)
            elif kind == "ask":
                self._answer_ask(value)
        if self._closing and self._exit is None and self._uplink.idle():
            self._exit = 1

    def _note_author(self, value: dict[str, str]) -> None:
        try:
            author.keep(self._config.dir, value["name"], value["email"])
        except OSError as error:  # commands run all the same: git says that it knows nobody's name
            say(f"whose the commits are could not be written: {error}")

    def _answer_ask(self, ask: dict[str, Any]) -> None:
        n, offset, limit = int(ask["n"]), int(ask["offset"]), min(int(ask["limit"]), ASK_LIMIT)
        answer = {"id": ask["id"], "n": n, "offset": offset, "first": 0, "size": None, "data": ""}
        spool = self._spools.get(n)
        if spool:
            data = spool.read(offset, limit)
            answer.update(first=spool.first, size=spool.size, data=binascii.b2a_base64(data, newline=False).decode())
        self._uplink.answer(answer)

    def _answer_driver(self, order: dict[str, Any]) -> dict[str, Any]:
        """In the thread of a caller on the control socket. Raises KeyError or ValueError for what is no order."""
        if order["op"] == "power":
            epoch, frozen = self._power.apply(int(order["epoch"]), bool(order["frozen"]))
            return {"epoch": epoch, "frozen": frozen}
        if order["op"] == "status":
            return {
                "box": self._config.box, "incarnation": self._config.incarnation, "pid": os.getpid(),
                "epoch": self._power.epoch, "frozen": self._power.frozen, "jail": self._up and not self._closing,
                "open": self._commands.numbers() if self._commands else [],
            }  # fmt: skip
        if order["op"] == "quit":
            gone, told = _thread.allocate_lock(), _thread.allocate_lock()
            gone.acquire()
            told.acquire()
            self._mailbox.put("quit", (gone, told))
            gone.acquire()
            return {"then": told.release}
        raise ValueError(f"no such op: {order['op']!r}")

    def _read_stderr(self) -> None:
        assert self._jail
        data = os.read(self._jail.stderr, 65536)
        if data:
            self._stderr = (self._stderr + data)[-STDERR_KEPT:]
        else:
            self._selector.unregister(self._jail.stderr)

    def _fail(self, reason: str) -> None:
        """The jail could not be made or is gone: everything it held is told, and then the agent ends."""
        self._end_jail(reason, {})

    def _end_jail(self, reason: str, event: dict[str, Any]) -> None:
        """Ends the jail and tells why, by this event where there is one."""
        self._closing = True
        if self._jail:
            if self._jail.socket.fileno() in self._selector.get_map():
                self._selector.unregister(self._jail.socket.fileno())
            self._jail.kill()
            code = self._jail.wait()
            os.set_blocking(self._jail.stderr, False)
            while self._jail.stderr in self._selector.get_map():
                try:
                    self._read_stderr()
                except BlockingIOError:
                    break
            said = self._stderr.decode("utf-8", "replace").strip()
            limit = self._commands.causes.of_box() if self._commands else ""
            reason = f"{reason} (exit {code})" + "".join(f": {text}" for text in (limit, said) if text)
            if self._commands:
                reason = self._commands.kept.text(reason)
        say(reason)
        if self._commands:
            self._commands.end_all(f"the jail ended: {reason}")
        self._uplink.tell(event or {"type": "failed", "reason": reason})


def run(path: str) -> int:
    """Runs the agent for the `agent.json` at `path`. Returns its exit code: 0 over, 1 no jail, 2 no configuration."""
    try:
        config = load(path)
        libc.hide()
        archive = os.path.abspath(sys.argv[0])
        os.chdir(config.dir)
        with open("agent.pid", "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        agent = Agent(config, archive)
    except (BadConfig, OSError) as error:
        say(f"the agent cannot start: {error}")
        return 2
    code = agent.run()
    os._exit(code)  # the other threads are waiting for the network; there is nothing left to tidy
