"""Which processes work on a data folder: each holds a lock on a file there, and the file says who it is."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def hold(path: Path, **told: object) -> Iterator[None]:
    """Hold the file, with this process's id and what is told in it. Raises BlockingIOError when another one does."""
    # Open to its owner alone: whoever may read a file may lock it too, and would be taken for who serves.
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "a+") as file:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(json.dumps({"pid": os.getpid(), **told}))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def holder(path: Path) -> dict[str, Any] | None:
    """What the process that holds the file tells there, `pid` at least; None when none does."""
    try:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = file.read()
                return json.loads(text) if text else {"pid": None}  # it is at its first step or its last
    except FileNotFoundError:
        pass
    return None


def stranger(path: Path) -> str | None:
    """Whose the file of a lock is, where that is not who runs this: even root would leave files that its owner cannot
    change. None where it is ours, or not there.
    """
    try:
        owner = path.stat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return None
    if owner == os.geteuid():
        return None
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"
