"""Files that are written whole or not at all, and files that are opened without waiting for a pipe's other end."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file whole or not at all, and on disk before it has its name. Raises OSError."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def no_wait(path: str, flags: int) -> int:
    """An opener: a file's descriptor; for a pipe that nobody writes to as well, which would else be waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
