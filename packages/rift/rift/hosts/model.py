"""A host's state as its worker reported it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class HostState:
    """What was left at `at`, in bytes."""

    at: datetime
    disk_free: int
    memory_free: int
    memory_total: int


@dataclass(frozen=True, slots=True)
class Reserves:
    """What must stay free, in bytes."""

    disk: int
    memory: int


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a host is short of: so much is free of so much that must be, in bytes; None for what there is enough of."""

    disk: tuple[int, int] | None
    memory: tuple[int, int] | None
