"""Taking a port, before anything is made that only whoever has it may make."""

from __future__ import annotations

import errno
import os
import socket
import threading

BACKLOG = 2048
"""How many connections may wait to be taken."""
PORT_TRIES = 20
"""How often a port that is taken is tried again, a tenth of a second apart."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there: what comes early waits. Raises OSError.

    As root it is tried again for a moment: where a keeper was killed, its child ends just after it.
    """
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for _ in range(PORT_TRIES if os.geteuid() == 0 else 0):
            try:
                listening.bind((host, port))
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                threading.Event().wait(0.1)
        else:
            listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
