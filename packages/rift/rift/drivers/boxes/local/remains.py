"""What there is of boxes on this host, of whatever kind, whether or not anybody knows of them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rift.drivers.boxes.local import groups, places, processes
from rift.drivers.boxes.local.config import LocalConfig

DONE = "checkout.done"


@dataclass(frozen=True, slots=True)
class Remains:
    """Ids of boxes, by what there is of them; `agents` says how many processes are an agent of each.

    `half_made` have a folder whose checkout was not finished. `locks` are lock files that nobody holds.
    """

    folders: frozenset[str] = frozenset()
    half_made: frozenset[str] = frozenset()
    agents: dict[str, int] = field(default_factory=dict)
    groups: frozenset[str] = frozenset()
    locks: frozenset[str] = frozenset()

    @property
    def boxes(self) -> frozenset[str]:
        """Every box of which anything is left."""
        return self.folders | self.groups | frozenset(self.agents)


def look(config: LocalConfig) -> Remains:
    """Everything of this data folder's boxes that is on the host now. Raises OSError where it may not be looked at."""
    folders = frozenset(places.all_boxes(config))
    return Remains(
        folders,
        frozenset(box for box in folders if not (config.boxes / box / DONE).exists()),
        processes.agents_below(config.boxes),
        frozenset(groups.find(config.data).boxes()),
        frozenset(path.name for path in config.boxes.glob(".lock-*") if _is_free(path)),
    )


def _is_free(path: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        finally:
            os.close(descriptor)
    return False
