"""A process of root's that is to be somebody else, and what it may know of ours: `keel.dropping` is its other side."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from keel.accounts import Account

KEPT = (
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LINES",
    "NO_COLOR",
    "PATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TZ",
)
KEPT_FAMILIES = ("LC_", "OTEL_", "PYTHON")


@dataclass(frozen=True, slots=True)
class Child:
    """The process, and our end of the line to it."""

    process: subprocess.Popen[bytes]
    line: socket.socket
    sockets: tuple[int, ...]
    """The descriptors, in the child, of what it listens on."""


@contextmanager
def child(program: str, who: Account, words: Sequence[str], sockets: Sequence[socket.socket]) -> Iterator[Child]:
    """A process that becomes `who` at once, then waits to be told what to do. It ends with the block.

    `program` is what its Python runs first: `keel.dropping.boot` or what calls that. `words` are for it, and for
    whoever looks at a list of processes. The sockets are the child's from here on.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            passed = [sock.fileno() for sock in sockets]
            numbers = [theirs.fileno(), os.getpid(), who.uid, who.gid]
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", program, *map(str, numbers), *words],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *passed),
                env=environment(dict(os.environ), who.name),
                start_new_session=True,  # Ctrl-C is the keeper's, which passes it on once
            )
        for sock in sockets:
            sock.close()  # where the child listens no more, nobody waits for an answer
        try:
            yield Child(process, ours, tuple(passed))
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def environment(ours: Mapping[str, str], user: str) -> dict[str, str]:
    """What a child sees of our environment: nothing that could be somebody's credential."""
    kept = {name: value for name, value in ours.items() if name in KEPT or name.startswith(KEPT_FAMILIES)}
    return {**kept, "HOME": "/", "USER": user, "LOGNAME": user}
