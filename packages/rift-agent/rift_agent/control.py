"""The driver's socket, on the same host: one line of JSON in, one out. Only root and the agent's own user are
answered.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Answer = Callable[[dict[str, Any]], dict[str, Any]]

NAME = "control.sock"
LINE_LIMIT = 4096
PATIENCE = 10.0


def listen() -> socket.socket:
    """The listening socket in the current folder, in place of an older one."""
    try:
        os.unlink(NAME)
    except FileNotFoundError:
        pass
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        sock.bind(NAME)  # a relative name: the folder's whole path may be longer than an address can be
    finally:
        os.umask(before)
    sock.listen(16)
    sock.setblocking(False)
    return sock


def accept(sock: socket.socket, answer: Answer) -> None:
    """Serves one caller in a thread of its own: parking may take seconds, and the loop has other work.

    `answer` makes the reply to an order; a function under its key "then" is called once the reply has been sent.
    """
    try:
        caller, _ = sock.accept()
    except BlockingIOError:
        return
    _thread.start_new_thread(_serve, (caller, answer))


def _serve(caller: socket.socket, answer: Answer) -> None:
    with caller:
        caller.settimeout(PATIENCE)
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if uid not in (0, os.geteuid()):
            return
        try:
            with caller.makefile("rb") as lines:
                for line in iter(lambda: lines.readline(LINE_LIMIT), b""):
                    reply = _reply(line, answer)
                    then = reply.pop("then", None)
                    caller.sendall(json.dumps(reply).encode() + b"\n")
                    if then:
                        then()
        except OSError:
            pass


def _reply(line: bytes, answer: Answer) -> dict[str, Any]:
    try:
        order = json.loads(line)
        return {"ok": True, **answer(order)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"ok": False, "reason": f"not an order: {error}"}
