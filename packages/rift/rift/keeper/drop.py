"""How Rift's server gives root away (`keel.dropping`), with the agent's filter as its own.

It needs the standard library and that filter alone, so that next to nothing runs as root.
"""

from __future__ import annotations

import os

from keel import dropping
from rift_agent import seccomp


def become(uid: int, gid: int, *, parent: int) -> None:
    """As `keel.dropping.become`: the system calls that no jail may make are none of the server's either."""
    dropping.become(uid, gid, parent=parent, code=seccomp.program(os.uname().machine))


def boot() -> None:
    """How the server begins: `-c … LINE PARENT UID GID COMMAND`. It gives root away, then loads the rest."""
    # By name, as it stands above this room.
    dropping.boot("Rift", "rift.cli.child", seccomp.program(os.uname().machine))
