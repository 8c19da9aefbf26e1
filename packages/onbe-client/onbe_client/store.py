"""Where grants are kept, so that a task survives the process that works on it.

A grant is a secret as good as the task: whoever has it and the agent's key can go on with the task.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from onbe_client.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class Grant:
    """What it takes, beside the agent's key, to go on with a task."""

    grant: str = field(repr=False)
    issuer: str
    agent_id: str
    task_id: str | None = None
    resource: str | None = None
    scope: tuple[str, ...] | None = None
    """What tokens are asked for; None is all that the task has."""
    task_expires_at: datetime | None = None


class GrantStore(Protocol):
    """Grants by a key of the program's own, as `invoice-4711`. Every method may block for a moment."""

    def load(self, key: str) -> Grant | None:
        """The grant kept under a key."""

    def save(self, key: str, grant: Grant) -> None:
        """Keep it, in place of what was there. Whatever happens meanwhile, the old or the new one is there."""

    def forget(self, key: str) -> None:
        """Keep it no longer; nothing where there is none."""

    def keys(self) -> tuple[str, ...]:
        """What is kept, in order."""


class MemoryGrants:
    """Grants in this process's memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Grant] = {}
        self._lock = threading.Lock()

    def load(self, key: str) -> Grant | None:
        with self._lock:
            return self._kept.get(key)

    def save(self, key: str, grant: Grant) -> None:
        with self._lock:
            self._kept[key] = grant

    def forget(self, key: str) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def keys(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(self._kept))


class FileGrants:
    """Grants in one JSON file that its owner alone may read (0600), shared by any number of processes of one host.

    Each change is made under a lock (`NAME.lock` beside it), written whole to a new file, and put in place in one
    step: a crash leaves the old one. Raises Misconfigured for a file that others may read, that is somebody else's,
    or that is none of this kind; it is left as it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()

    def __repr__(self) -> str:
        return f"FileGrants({str(self._path)!r})"

    def load(self, key: str) -> Grant | None:
        entry = self._read().get(key)
        return None if entry is None else _grant(entry)

    def save(self, key: str, grant: Grant) -> None:
        with self._changing() as kept:
            kept[key] = _entry(grant)

    def forget(self, key: str) -> None:
        if key in self._read():
            with self._changing() as kept:
                kept.pop(key, None)

    def keys(self) -> tuple[str, ...]:
        return tuple(sorted(self._read()))

    def _read(self) -> dict[str, Any]:
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise Misconfigured("grants_unreadable", f"The file of grants cannot be read: {error.strerror}.") from None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise Misconfigured(
                    "grants_exposed", "The file of grants is another's, or others may read it; it should be 0600."
                )
            data = file.read()
        try:
            kept = json.loads(data)["grants"]
            if not isinstance(kept, dict):
                raise TypeError
            for entry in kept.values():
                _grant(entry)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Misconfigured("grants_malformed", "The file of grants is not one; it was left as it is.") from None
        return kept

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        try:
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise Misconfigured("grants_unwritable", f"No lock beside the file of grants: {error.strerror}.") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = self._read()
            yield kept
            self._write(kept)
        finally:
            os.close(lock)

    def _write(self, kept: dict[str, Any]) -> None:
        """Under the lock, so that the name of the new file is ours; what a crash left of one is written over."""
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            with suppress(FileNotFoundError):
                fresh.unlink()
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"grants": kept}, file)
                file.flush()
                os.fsync(handle)
            fresh.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise Misconfigured(
                "grants_unwritable", f"The file of grants cannot be written: {error.strerror}."
            ) from None


def _entry(grant: Grant) -> dict[str, Any]:
    return {
        "grant": grant.grant,
        "issuer": grant.issuer,
        "agent_id": grant.agent_id,
        "task_id": grant.task_id,
        "resource": grant.resource,
        "scope": None if grant.scope is None else list(grant.scope),
        "task_expires_at": grant.task_expires_at.isoformat() if grant.task_expires_at else None,
    }


def _grant(entry: Any) -> Grant:
    """Raises ValueError, KeyError or TypeError for what is none."""
    texts = [entry[name] for name in ("grant", "issuer", "agent_id")]
    maybe = [entry.get(name) for name in ("task_id", "resource", "task_expires_at")]
    scope = entry.get("scope")
    if not all(isinstance(text, str) for text in texts) or not all(
        text is None or isinstance(text, str) for text in maybe
    ):
        raise TypeError
    if scope is not None and not (isinstance(scope, list) and all(isinstance(word, str) for word in scope)):
        raise TypeError
    ends = datetime.fromisoformat(maybe[2]) if maybe[2] else None
    return Grant(
        grant=texts[0],
        issuer=texts[1],
        agent_id=texts[2],
        task_id=maybe[0],
        resource=maybe[1],
        scope=None if scope is None else tuple(scope),
        task_expires_at=ends.astimezone(UTC) if ends else None,
    )
