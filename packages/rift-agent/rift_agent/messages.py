"""What the agent and the init inside its jail say to each other: one SEQPACKET message each, bounded, never JSON.

A message is a kind, a command number and a few byte strings; descriptors ride beside it. Both sides use this file; the
agent reads with `receive`, which never raises on what a hostile init may send.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # what `socket.socket` stands on: the init does without that module

# agent → init
SETUP, BASH, READ, WRITE = 1, 2, 3, 4
# init → agent
READY, STARTED, ENDED, REFUSED = 17, 18, 19, 20

LIMIT = 65536  # bytes of one message
MOST_FIELDS = 512
MOST_DESCRIPTORS = 4
_HEAD = struct.Struct("!BQH")
_LENGTH = struct.Struct("!I")
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_MSG_TRUNC, _MSG_CTRUNC, _MSG_CMSG_CLOEXEC, _MSG_NOSIGNAL = 0x20, 0x8, 0x40000000, 0x4000


class Malformed(Exception):
    """A message that is none; the reader drops it."""


class Message:
    """One message: `kind`, the command's number `n` (0 where it is about none), `fields`, and `fds` now owned by the
    reader.
    """

    __slots__ = ("fds", "fields", "kind", "n")

    def __init__(self, kind: int, n: int = 0, fields: list[bytes] | None = None, fds: list[int] | None = None) -> None:
        self.kind = kind
        self.n = n
        self.fields = fields or []
        self.fds = fds or []

    def close(self) -> None:
        """Closes the descriptors that came with it."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []


def pack(kind: int, n: int, fields: list[bytes]) -> bytes:
    """The bytes of a message. Raises ValueError when it would be over a bound."""
    if len(fields) > MOST_FIELDS:
        raise ValueError(f"{len(fields)} fields are more than {MOST_FIELDS}")
    parts = [_HEAD.pack(kind, n, len(fields))]
    for field in fields:
        parts += (_LENGTH.pack(len(field)), field)
    data = b"".join(parts)
    if len(data) > LIMIT:
        raise ValueError(f"a message of {len(data)} bytes is over {LIMIT}")
    return data


def unpack(data: bytes) -> Message:
    """The message these bytes are. Raises Malformed unless they are exactly one, to the last byte."""
    if not _HEAD.size <= len(data) <= LIMIT:
        raise Malformed("its size is out of bounds")
    kind, n, count = _HEAD.unpack_from(data)
    if count > MOST_FIELDS:
        raise Malformed("it has too many fields")
    fields, at = [], _HEAD.size
    for _ in range(count):
        if at + _LENGTH.size > len(data):
            raise Malformed("it ends inside a length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > len(data):
            raise Malformed("it ends inside a field")
        fields.append(data[at : at + length])
        at += length
    if at != len(data):
        raise Malformed("bytes are left over")
    return Message(kind, n, fields)


def send(sock: Socket, kind: int, n: int = 0, fields: list[bytes] | None = None, fds: list[int] | None = None) -> None:
    """Sends one message. Raises OSError (BlockingIOError where nobody reads) or ValueError (too long)."""
    rights = [(_SOL_SOCKET, _SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    sock.sendmsg([pack(kind, n, fields or [])], rights, _MSG_NOSIGNAL)


def receive(sock: Socket) -> Message | None:
    """The next message, or None when the other side is gone.

    Raises Malformed for one that is none (its descriptors are closed) and BlockingIOError when there is nothing to
    read.
    """
    room = struct.calcsize("N") * 2 + struct.calcsize("i") * MOST_DESCRIPTORS
    try:
        data, ancillary, flags, _ = sock.recvmsg(LIMIT, room, _MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    fds: list[int] = []
    for level, kind, rights in ancillary:
        if level == _SOL_SOCKET and kind == _SCM_RIGHTS:
            whole = len(rights) // struct.calcsize("i")
            fds += struct.unpack(f"{whole}i", rights[: whole * struct.calcsize("i")])
    if not data and not fds:
        return None
    try:
        if flags & (_MSG_TRUNC | _MSG_CTRUNC):
            raise Malformed("it was cut")
        message = unpack(data)
    except Malformed:
        Message(0, fds=fds).close()
        raise
    message.fds = fds
    return message
