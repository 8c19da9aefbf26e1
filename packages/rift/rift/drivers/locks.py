"""Locks among all processes of a host, held by a file."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[int]:
    """Hold the lock at `path`; its file comes and goes with it. Yields its descriptor.

    A child process that is given the descriptor holds the lock too: then it lasts until both are gone.
    """
    while (descriptor := _taken(path)) is None:  # noqa: ASYNC110 -- another process holds it, and sets no event here
        await asyncio.sleep(0.02)
    try:
        yield descriptor
    finally:
        with suppress(FileNotFoundError):
            # While held: whoever opened it before sees that it is another file, and tries again.
            os.unlink(path)  # noqa: PTH108 -- not a slow call
        os.close(descriptor)


def unlocked(path: Path) -> bool:
    """Whether nobody holds the lock at `path`; its file goes where it was left."""
    try:
        descriptor = _taken(path, make=False)
    except FileNotFoundError:
        return True
    if descriptor is None:
        return False
    path.unlink(missing_ok=True)
    os.close(descriptor)
    return True


@contextmanager
def tried(path: Path) -> Iterator[int | None]:
    """As `locked`, where the lock can be had at once; None where somebody holds it."""
    descriptor = _taken(path)
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            with suppress(FileNotFoundError):
                path.unlink()
            os.close(descriptor)


def _taken(path: Path, *, make: bool = True) -> int | None:
    """The lock's descriptor; None where somebody holds it, or has another file there since it was opened."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _same_file(descriptor, path):
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
