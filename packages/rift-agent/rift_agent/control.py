"""The driver's socket, on the same host: one line of JSON in, one out. Only root and the agent's own user are answered."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading

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
    """Serves one caller in a thread of its own: parking may take seconds, and the loop has other work."""
    try:
        caller, _ = sock.accept()
    except BlockingIOError:
        return
    threading.Thread(target=_serve, args=(caller, answer), daemon=True).start()


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
                    caller.settimeout(None)
                    caller.sendall(json.dumps(_reply(line, answer)).encode() + b"\n")
                    caller.settimeout(PATIENCE)
        except OSError:
            pass


def _reply(line: bytes, answer: Answer) -> dict[str, Any]:
    try:
        order = json.loads(line)
        return {"ok": True, **answer(order)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return {"ok": False, "reason": f"not an order: {error}"}
