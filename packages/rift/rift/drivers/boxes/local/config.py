"""How the local driver is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LocalConfig:
    """`data` is the data folder; boxes stand in `<data>/boxes/<id>`, the programs they use in `<data>/lib`.

    Started as root, each box gets a host uid of its own from `first_uid` on, at most `uids` of them, and the group
    `first_uid - 1`, which is shared and opens nothing but the mirrors. `show_read_only` are further host folders to
    be seen in every jail, at the same path. `certificates` is a bundle the jail's programs shall trust, where the
    host's own is not enough; `upstream_proxy` is the HTTP proxy through which this host reaches the world, if it needs
    one. `spool_limit` and `spool_total` are bytes, of one command and of a box.
    """

    data: Path
    first_uid: int = 700_000
    uids: int = 10_000
    show_read_only: tuple[Path, ...] = ()
    certificates: Path | None = None
    upstream_proxy: str = ""
    spool_limit: int = 256 * 1024 * 1024
    spool_total: int = 2 * 1024 * 1024 * 1024
    start_seconds: float = 20.0

    @property
    def boxes(self) -> Path:
        return self.data / "boxes"

    @property
    def lib(self) -> Path:
        return self.data / "lib"

    @property
    def group(self) -> int:
        """The host group of all boxes, when started as root."""
        return self.first_uid - 1

    @property
    def probe_uid(self) -> int:
        """The uid for trials that belong to no box."""
        return self.first_uid + self.uids
