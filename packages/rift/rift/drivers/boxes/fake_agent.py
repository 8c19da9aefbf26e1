"""An agent without a jail: it speaks the agents' protocol in this process and plays scripted commands.

A command is a script, one step a line; its exit code is that of its last step:

    echo TEXT                     print a line
    print N bytes                 print N bytes, the digits 0 to 9 over and over
    put PATH TEXT                 write a file of one line
    cat PATH                      print a file
    sleep-until-released NAME     wait until the test releases NAME
    exit N                        end at once with N
    die N                         end at once as if killed by signal N
    true, false, nothing          as one expects

Anything else prints `NAME: command not found` and counts as 127, as a shell has it.
"""

from __future__ import annotations

import asyncio
import base64
import posixpath
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

Post = Callable[[str, dict[str, Any], str], Awaitable[tuple[int, dict[str, Any]]]]
"""Posts `(path, body, token)` to the control plane and returns `(status, answer)`; raises OSError when it is away."""

TAIL = 8192
READ_LIMIT = 65536
BACKOFF_FIRST, BACKOFF_MOST = 0.05, 2.0


@dataclass(slots=True)
class FakeBox:
    """What a box keeps from one agent to the next: its files by full path, and its power."""

    checkout: str
    files: dict[str, bytes] = field(default_factory=dict)
    epoch: int = 0
    frozen: bool = False
    thawed: asyncio.Event = field(default_factory=asyncio.Event)
    released: dict[str, asyncio.Event] = field(default_factory=dict)
    silent: asyncio.Event | None = None
    set_up: bool = False
    """Whether its repository's setup has run to its end."""

    def path(self, path: str) -> str:
        """A path as the box sees it, relative ones from the checkout."""
        return posixpath.normpath(posixpath.join(self.checkout, path))

    def power(self, epoch: int, frozen: bool) -> None:
        """Park or resume, unless a newer order has been heard."""
        if epoch < self.epoch:
            return
        self.epoch, self.frozen = epoch, frozen
        if frozen:
            self.thawed.clear()
        else:
            self.thawed.set()

    def gate(self, name: str) -> asyncio.Event:
        """What `sleep-until-released NAME` waits for."""
        return self.released.setdefault(name, asyncio.Event())


NEVER = {
    "type": "ended",
    "exit": None,
    "reason": "stopped by rift_stop before it started",
    "size": 0,
    "tail": "",
    "ran": False,
}
"""What an agent says of a command whose stop comes before the command."""


class _Ended(Exception):
    """A command is over."""

    def __init__(self, exit_code: int, reason: str | None = None) -> None:
        self.exit = exit_code
        self.reason = reason


@dataclass(slots=True)
class _Command:
    n: int
    order: dict[str, Any]
    output: bytearray = field(default_factory=bytearray)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    media: str | None = None
    acknowledged: bool = False


class FakeAgent:
    """One incarnation of a box's agent. `run` returns when the control plane says it is over."""

    def __init__(
        self, box: FakeBox, base: str, token: str, post: Post, failure: str | None, setup: tuple[str, float] = ("", 0)
    ) -> None:
        """`setup` is the repository's script, and for how many seconds it may run."""
        self._setup = setup
        self._box = box
        self._base = base
        self._token = token
        self._post = post
        self._failure = failure
        self._commands: dict[int, _Command] = {}
        self._events: asyncio.Queue[tuple[dict[str, Any], _Command | None]] = asyncio.Queue()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._report())
                if self._failure is not None:
                    self._events.put_nowait(({"type": "failed", "reason": self._failure}, None))
                elif await self._set_up():
                    self._events.put_nowait(({"type": "up"}, None))
                group.create_task(self._work())
        except* _Over:
            pass

    async def _set_up(self) -> bool:
        """Run the setup, once in the box's life; a failure is told, and the box is not up."""
        text, seconds = self._setup
        if not text or self._box.set_up:
            return True
        command = _Command(0, {"kind": "bash", "command": text, "timeout": seconds})
        ended = await self._outcome(command)
        if ended.exit == 0:
            self._box.set_up = True
            return True
        late = (ended.reason or "").startswith("timeout")
        how = f"did not end within {seconds:g} s" if late else f"failed with exit {ended.exit}"
        failure = {"type": "failed", "setup": True, "reason": f"the repository's setup {how}"}
        self._events.put_nowait((failure | {"output": base64.b64encode(command.output).decode()}, None))
        return False

    async def _say(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post until it is heard. Raises _Over when this incarnation is no longer wanted."""
        pause = BACKOFF_FIRST
        while True:
            try:
                if self._box.silent is not None:
                    await self._box.silent.wait()
                status, answer = await self._post(f"{self._base}/{what}", body, self._token)
            except OSError:
                status, answer = 0, {}
            if self._box.silent is not None:
                continue  # the answer never got here
            if status == 200:
                return answer
            if status == 410:
                raise _Over
            await asyncio.sleep(pause)
            pause = min(pause * 2, BACKOFF_MOST)

    async def _report(self) -> None:
        while True:
            event, command = await self._events.get()
            await self._say("events", {"events": [event]})
            if command is not None:
                command.acknowledged = True

    async def _work(self) -> None:
        while True:
            known = [command.n for command in self._commands.values() if not command.acknowledged]
            power = [self._box.epoch, self._box.frozen]
            answer = await self._say("work", {"known": known, "wait": 25, "power": power})
            self._box.power(*answer.get("power", power))
            for order in answer.get("commands", ()):
                if order["n"] not in self._commands:
                    self._commands[order["n"]] = command = _Command(order["n"], order)
                    self._group.create_task(self._play(command))
            for n in answer.get("stops", ()):
                if n in self._commands and self._commands[n].stop.is_set():
                    await asyncio.sleep(BACKOFF_FIRST)  # it is wanted until its end is heard: do not ask all the while
                elif n in self._commands:
                    self._commands[n].stop.set()
                else:
                    self._commands[n] = never = _Command(n, {})
                    self._events.put_nowait((NEVER | {"n": n}, never))
            for ask in answer.get("asks", ()):
                await self._say("answers", self._answer(ask))

    def _answer(self, ask: dict[str, Any]) -> dict[str, Any]:
        body = {"id": ask["id"], "n": ask["n"], "offset": ask["offset"], "first": 0}
        command = self._commands.get(ask["n"])
        if command is None:
            return body | {"size": None, "data": ""}
        part = bytes(command.output[ask["offset"] : ask["offset"] + ask["limit"]])
        return body | {"size": len(command.output), "data": base64.b64encode(part).decode()}

    async def _play(self, command: _Command) -> None:
        ended = await self._outcome(command)
        event: dict[str, Any] = {
            "type": "ended",
            "n": command.n,
            "exit": ended.exit,
            "reason": ended.reason,
            "size": len(command.output),
            "tail": base64.b64encode(bytes(command.output[-TAIL:])).decode(),
        }
        if command.media is not None:
            event["media"] = command.media
        self._events.put_nowait((event, command))

    async def _outcome(self, command: _Command) -> _Ended:
        steps = asyncio.ensure_future(self._steps(command))
        stop = asyncio.ensure_future(command.stop.wait())
        limit = command.order["timeout"]
        try:
            done, _ = await asyncio.wait({steps, stop}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not steps.done():
                steps.cancel()
        if steps in done:
            return steps.result()
        if stop in done:
            return _Ended(128 + signal.SIGTERM, "stopped by rift_stop")
        return _Ended(128 + signal.SIGTERM, f"timeout: stopped after {limit} s")

    async def _steps(self, command: _Command) -> _Ended:
        try:
            match command.order["kind"]:
                case "read":
                    self._read(command)
                case "write":
                    self._write(command)
                case _:
                    code = 0
                    for line in command.order["command"].splitlines():
                        await self._box.thawed.wait()
                        code = await self._step(line.strip(), command)
                    return _Ended(code)
        except _Ended as ended:
            return ended
        return _Ended(0)

    async def _step(self, line: str, command: _Command) -> int:
        name, _, rest = line.partition(" ")
        match name:
            case "" | "true":
                return 0
            case "false":
                return 1
            case "echo":
                command.output += rest.encode() + b"\n"
            case "print":
                count = int(rest.split()[0])
                command.output += (b"0123456789" * (count // 10 + 1))[:count]
            case "put":
                path, _, text = rest.partition(" ")
                self._box.files[self._box.path(path)] = text.encode() + b"\n"
            case "cat":
                if self._box.path(rest) not in self._box.files:
                    command.output += f"cat: {rest}: No such file or directory\n".encode()
                    return 1
                command.output += self._box.files[self._box.path(rest)]
            case "sleep-until-released":
                await self._box.gate(rest).wait()
                await self._box.thawed.wait()
            case "exit":
                raise _Ended(int(rest))
            case "die":
                number = int(rest)
                raise _Ended(128 + number, f"killed by signal {number} ({signal.Signals(number).name})")
            case _:
                command.output += f"{name}: command not found\n".encode()
                return 127
        return 0

    def _read(self, command: _Command) -> None:
        path = self._box.path(command.order["path"])
        content = self._box.files.get(path)
        if content is None:
            inside = path.rstrip("/") + "/"
            raise _Ended(1, "a folder" if any(name.startswith(inside) for name in self._box.files) else "no such file")
        media = _image(content)
        if media is None:
            try:
                content.decode()
            except UnicodeDecodeError:
                raise _Ended(1, f"binary file, {len(content)} bytes, application/octet-stream") from None
            if len(content) > READ_LIMIT:
                raise _Ended(1, f"the file has {len(content)} bytes; rift_read gives up to {READ_LIMIT}")
        command.media = media
        command.output += content

    def _write(self, command: _Command) -> None:
        content = command.order["content"].encode()
        self._box.files[self._box.path(command.order["path"])] = content
        command.output += f"wrote {len(content)} bytes to {command.order['path']}\n".encode()


class _Over(Exception):
    """The control plane is done with this incarnation."""


def _image(content: bytes) -> str | None:
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return None
