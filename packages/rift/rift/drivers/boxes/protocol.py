"""What a box driver does, whoever makes the boxes.

A driver makes, parks and removes boxes; it never speaks to what runs in them. A box's agent reports to the control
plane itself, under the incarnation it was started with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

from keel.db import forbid_in_transaction
from keel.sizes import GIB

State = Literal["absent", "stopped", "running", "parked"]

P = ParamSpec("P")
R = TypeVar("R")


class DriverError(Exception):
    """A driver could not do what it was asked; `reason` is the whole text, fit to be shown to a person."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Interrupted(DriverError):
    """What the driver had begun was ended from outside: tried again, it may well go better."""


class StoreLost(DriverError):
    """What was built for a box is gone from the host: the box can be started once that is built again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a box may use: bytes of `memory` and `disk`, so many `processes` (threads count), a share of the CPU (1024
    is usual), `open_files` a process. `own` names those that are its repository's own and not the defaults.
    """

    memory: int = 4 * GIB
    processes: int = 1024
    disk: int = 20 * GIB
    cpu_shares: int = 1024
    open_files: int = 65_536
    own: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a box has beside the base, from its repository's flake: see `drivers.nix.protocol.Built`.

    `store` is shown read-only as /nix/store, `paths` (below it) are on PATH by their `bin`, before the host's and after
    the user's own, `env` are variables of every command, where Rift sets none of that name, and `setup` is run once in
    the box's life, for at most `setup_seconds`, before it is up. One that was interrupted is run again.
    """

    store: Path
    paths: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    setup: str
    setup_seconds: float


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """One start of one box.

    `box` is its id (`b-` and 24 hex digits, or an older name), `incarnation` counts the starts of its agent,
    `repository` is `OWNER/NAME` or the short name, `ref` a short branch name and `commit` the full object name the
    checkout stands at; `mirror` is the bare mirror it borrows objects from, `origin` the URL its `origin` shall have.
    `server` and `token` are the agent's; `epoch` is the number of the last order to park or resume.
    """

    box: str
    incarnation: int
    name: str
    repository: str
    ref: str
    commit: str
    mirror: Path
    origin: str
    token: str = field(repr=False)
    network: str
    allow: tuple[str, ...]
    epoch: int
    server: str
    limits: Limits = Limits()
    equipment: Equipment | None = None

    @property
    def short_repository(self) -> str:
        """The repository's name without its owner: the checkout's folder."""
        return self.repository.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Presence:
    """What a driver finds of a box: `stopped` has files and no process; `parked` has frozen processes."""

    state: State
    incarnation: int | None = None


@dataclass(frozen=True, slots=True)
class HostRoom:
    """What a host of boxes has left, in bytes: of the disk that holds them, and of memory, with that in all."""

    disk_free: int
    memory_free: int
    memory_total: int


@dataclass(frozen=True, slots=True)
class Started:
    """What `start` made: `lacks` holds one sentence for each thing the checkout lacks (submodules, LFS files)."""

    lacks: tuple[str, ...] = ()


class BoxDriver(Protocol):
    """Every method may be repeated and may be called by any replica; each raises DriverError, and only that.

    None of them may be called inside a database transaction (they raise then).
    """

    @property
    def kind(self) -> str:
        """A short word for lists and settings: `local`, `fake`."""

    async def start(self, spec: BoxSpec) -> Started:
        """Make the box's files and checkout where absent, end any older incarnation, start this one's agent.

        Returns when the agent's process is there, which is before its jail is up: the agent reports that itself.
        An agent of this incarnation that already runs is left alone. Raises when a newer incarnation runs.
        """

    async def park(self, box: str, epoch: int) -> None:
        """Flush the box's files and freeze its processes. Raises when its agent is not there.

        An epoch older than the last one the agent saw changes nothing: a newer order has overtaken this one.
        """

    async def resume(self, box: str, epoch: int) -> None:
        """Thaw the box's processes; as `park` otherwise."""

    async def stop(self, box: str) -> None:
        """End every process of the box; its files stay. Nothing to do for an unknown box."""

    async def destroy(self, box: str) -> None:
        """End every process and remove every file of the box. Returns when nothing is left; unknown is fine."""

    async def inspect(self, box: str) -> Presence:
        """What there is of the box now."""

    async def inventory(self) -> list[str]:
        """The ids of all boxes of which anything is left, sorted."""

    async def room(self) -> HostRoom:
        """What the host has left at this moment."""


def outside_transactions(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make an async method raise when it is called inside a database transaction: it is slow, and cannot be undone."""

    @functools.wraps(method)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        forbid_in_transaction(method.__qualname__)
        return await method(*args, **kwargs)

    return guarded


def telling(
    kind: Callable[[str], Exception], what: str
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Make an async method raise an error of this kind where the operating system refuses something, or a part of a
    box driver that it uses; `what` is told where the system names no file.
    """

    def wrap(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(method)
        async def telling(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return await method(*args, **kwargs)
            except DriverError as error:
                if kind is DriverError:
                    raise  # as what it is
                raise kind(error.reason) from error
            except OSError as error:
                raise kind(f"{error.filename or what}: {error.strerror or error}.") from error

        return telling

    return wrap
