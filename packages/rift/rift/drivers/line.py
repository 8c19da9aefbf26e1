"""The line between a server without privileges and the keeper of its host: frames, and the server's end.

A frame is a length of four bytes, big-endian, then that many bytes of JSON, an object:

    server → keeper   {"id": n, "call": "boxes.park", "args": {…}}   {"cancel": n}   {"say": "…"}
    keeper → server   {"id": n, "ok": …}   {"id": n, "error": "…", "kind": "…"}   {"id": n, "fault": "…"}   {"say": "…"}

Calls run side by side and are answered in any order. `error` is what the driver's own error says, and `kind` the word
for what it is (`KINDS`), null for a plain one; `fault` is a fault of the keeper. What is said with `say` is a word that
needs no answer. Either end closes the line by going away.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from keel.sizes import KIB, MIB
from rift.drivers.boxes.protocol import DriverError, Interrupted, StoreLost
from rift.drivers.forge.protocol import ForgeError, ForgeInterrupted
from rift.drivers.nix.protocol import BuildError, BuildInterrupted

CALL_LIMIT = MIB
"""The most bytes of a frame to the keeper: a box's start with its whole allow list is a few KiB."""
ANSWER_LIMIT = 64 * MIB
"""The most bytes of a frame from it: the heads of a repository with half a million branches."""
HEAD = 4
Failure = type[DriverError] | type[ForgeError] | type[BuildError]
KINDS: Mapping[Failure, Mapping[str, Failure]] = {
    DriverError: {"interrupted": Interrupted, "lost": StoreLost},
    ForgeError: {"interrupted": ForgeInterrupted},
    BuildError: {"interrupted": BuildInterrupted},
}
"""What each driver raises beside its plain error, by the word for it. All have `interrupted`: ended from outside."""
GONE = "The keeper of this host has ended, and with it what makes boxes and reads repositories."


class BadFrame(Exception):
    """What came is no frame; the text says why, and repeats nothing of it."""


def frame(message: dict[str, Any]) -> bytes:
    """A message as it goes over the line."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(HEAD, "big") + body


def kind_of(error: DriverError | ForgeError | BuildError) -> str | None:
    """The word for what an error is; None for a plain one."""
    found = (word for kinds in KINDS.values() for word, kind in kinds.items() if isinstance(error, kind))
    return next(found, None)


def parse(body: bytes) -> dict[str, Any]:
    """The message of a frame's body. Raises BadFrame."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise BadFrame("it is not JSON") from None
    if not isinstance(message, dict):
        raise BadFrame("it is no object")
    return message


async def read(reader: asyncio.StreamReader, limit: int) -> dict[str, Any] | None:
    """The next message; None at the end of the line, also in the middle of a frame. Raises BadFrame."""
    try:
        size = int.from_bytes(await reader.readexactly(HEAD), "big")
        if size > limit:
            raise BadFrame(f"it has {size} bytes, and at most {limit} are read")
        return parse(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive(sock: socket.socket, limit: int = ANSWER_LIMIT) -> dict[str, Any] | None:
    """As `read`, before there is an event loop. Raises BadFrame."""
    head = _exactly(sock, HEAD)
    size = int.from_bytes(head, "big")
    if size > limit:
        raise BadFrame(f"it has {size} bytes, and at most {limit} are read")
    body = _exactly(sock, size) if len(head) == HEAD else b""
    return parse(body) if body else None


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left and (part := sock.recv(left)):
        parts.append(part)
        left -= len(part)
    return b"" if left else b"".join(parts)


class Line:
    """The server's end. `said` is called with each word that the keeper says."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        said: Callable[[str], None] | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._said = said or (lambda word: None)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self._gone = False
        self._task = asyncio.create_task(self._listen(), name="line")

    async def call(self, name: str, arguments: dict[str, Any], error: Failure) -> Any:
        """What the keeper answers. Raises `error` with the reason it gives, RuntimeError on a fault.

        Where the keeper is gone, or says that it was interrupted, it is the `error` that may be tried again.

        A call that is cancelled is cancelled there too.
        """
        kinds = KINDS[error]
        interrupted = kinds["interrupted"]
        if self._gone:
            raise interrupted(GONE)
        self._last += 1
        number = self._last
        answered = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(frame({"id": number, "call": name, "args": arguments}))
            try:
                await self._writer.drain()
                answer = await answered
            except ConnectionError:
                raise interrupted(GONE) from None
            except asyncio.CancelledError:
                self._send({"cancel": number})
                raise
        finally:
            del self._waiting[number]
        if "error" in answer:
            raise kinds.get(str(answer.get("kind")), error)(str(answer["error"]))
        if "fault" in answer:
            raise RuntimeError(f"the keeper failed at {name}: {answer['fault']}")
        return answer.get("ok")

    def say(self, word: str) -> None:
        """Tell the keeper something that needs no answer."""
        self._send({"say": word})

    async def ended(self) -> None:
        """Wait until the keeper has gone."""
        await asyncio.wait([self._task])

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        self._task.cancel()
        await asyncio.wait([self._task])

    def _send(self, message: dict[str, Any]) -> None:
        if not self._gone:
            self._writer.write(frame(message))

    async def _listen(self) -> None:
        try:
            while (message := await read(self._reader, ANSWER_LIMIT)) is not None:
                if "say" in message:
                    self._said(str(message["say"]))
                number = message.get("id")
                # One that was cancelled waits no more.
                waiting = self._waiting.get(number) if isinstance(number, int) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        finally:
            self._gone = True
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionResetError(GONE))


async def connect(sock: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The two ends of a connected socket as streams."""
    sock.setblocking(False)
    with suppress(OSError):  # half a MiB in flight, so that a burst of calls does not wait for the other end's turn
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 512 * KIB)
    return await asyncio.open_unix_connection(sock=sock)
