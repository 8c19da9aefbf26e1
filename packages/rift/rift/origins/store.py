"""Who reads an origin, and when it was read last. Takes a transaction, returns models, never commits or decides.

These are columns of the repositories' rows; all else that stands there is the repositories' own.
"""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx


async def due(tx: Tx, before: datetime, now: datetime) -> list[str]:
    """The ids of the repositories last read before an instant, that nobody reads now; the longest unread first."""
    rows = await tx.rows(
        """
        SELECT id FROM repos
        WHERE (synced_at IS NULL OR synced_at < %(before)s) AND (sync_until IS NULL OR sync_until < %(now)s)
        ORDER BY synced_at NULLS FIRST, id
        """,
        {"before": before, "now": now},
    )
    return [row["id"] for row in rows]


async def begin_sync(tx: Tx, id: str, now: datetime, until: datetime) -> int | None:
    """Become the one who reads an origin: this look's number. None while somebody else does, or without it."""
    row = await tx.row(
        """
        UPDATE repos SET sync_epoch = sync_epoch + 1, sync_until = %(until)s
        WHERE id = %(id)s AND (sync_until IS NULL OR sync_until < %(now)s)
        RETURNING sync_epoch
        """,
        {"id": id, "now": now, "until": until},
    )
    return int(row["sync_epoch"]) if row else None


async def keep_sync(tx: Tx, id: str, epoch: int, until: datetime) -> None:
    """Go on being the one."""
    await tx.run(
        """
        UPDATE repos SET sync_until = %(until)s
        WHERE id = %(id)s AND sync_epoch = %(epoch)s AND sync_until IS NOT NULL
        """,
        {"id": id, "epoch": epoch, "until": until},
    )


async def leave_sync(tx: Tx, id: str, epoch: int) -> None:
    """Stop being the one, with nothing to say."""
    await tx.run(
        "UPDATE repos SET sync_until = NULL WHERE id = %(id)s AND sync_epoch = %(epoch)s", {"id": id, "epoch": epoch}
    )


async def end_sync(tx: Tx, id: str, epoch: int, now: datetime, failure: str | None) -> bool:
    """Stop being the one and note what came of it; False when another look has begun since."""
    return bool(
        await tx.run(
            """
            UPDATE repos SET sync_until = NULL, synced_at = %(now)s, failure = %(failure)s
            WHERE id = %(id)s AND sync_epoch = %(epoch)s
            """,
            {"id": id, "epoch": epoch, "now": now, "failure": failure},
        )
    )
