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
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(descriptor, path):
                break
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
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
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextmanager
def tried(path: Path) -> Iterator[int | None]:
    """As `locked`, where the lock can be had at once; None where somebody holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = _same_file(descriptor, path)
    except BlockingIOError:
        held = False
    except BaseException:
        os.close(descriptor)
        raise
    try:
        yield descriptor if held else None
    finally:
        if held:
            with suppress(FileNotFoundError):
                path.unlink()
        os.close(descriptor)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
