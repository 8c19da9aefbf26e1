"""The host's last report in Postgres: one row, for server and workers share one host."""

from __future__ import annotations

from keel.db import Tx
from rift.hosts.model import HostState


async def put(tx: Tx, state: HostState) -> None:
    """Take a report; an older one does not replace a newer one."""
    await tx.run(
        """
        INSERT INTO host (at, disk_free, memory_free, memory_total)
        VALUES (%(at)s, %(disk)s, %(memory)s, %(total)s)
        ON CONFLICT (one) DO UPDATE
        SET at = excluded.at, disk_free = excluded.disk_free, memory_free = excluded.memory_free,
            memory_total = excluded.memory_total
        WHERE host.at < excluded.at
        """,
        {
            "at": state.at,
            "disk": state.disk_free,
            "memory": state.memory_free,
            "total": state.memory_total,
        },
    )


async def last(tx: Tx) -> HostState | None:
    """The last report, however old."""
    return await tx.one(HostState, "SELECT at, disk_free, memory_free, memory_total FROM host")
