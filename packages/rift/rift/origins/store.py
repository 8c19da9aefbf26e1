"""Who reads an origin, and when it was read last. Takes a transaction, returns models, never commits or decides.

These are columns of the repositories' rows; all else that stands there is the repositories' own.
"""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx


async def due(tx: Tx, now: datetime, before: datetime, before_github: datetime) -> list[str]:
    """The ids of the repositories whose turn it is and that nobody reads now; the longest unread first.

    Those of GitHub's have another turn than the others, and none while they are not watched or cannot be reached.
    """
    rows = await tx.rows(
        """
        SELECT r.id FROM repos r LEFT JOIN github_accounts a ON a.installation = r.account
        WHERE (r.sync_until IS NULL OR r.sync_until < %(now)s)
          AND CASE r.forge
              WHEN 'local' THEN r.synced_at IS NULL OR r.synced_at < %(before)s
              ELSE (r.synced_at IS NULL OR r.synced_at < %(before_github)s)
                   AND (r.sync_after IS NULL OR r.sync_after <= %(now)s)
                   AND r.uncovered_at IS NULL AND a.enabled AND a.suspended_at IS NULL AND a.removed_at IS NULL
                   AND EXISTS (SELECT FROM watches w WHERE w.repo = r.id)
              END
        ORDER BY r.synced_at NULLS FIRST, r.id
        """,
        {"now": now, "before": before, "before_github": before_github},
    )
    return [row["id"] for row in rows]


async def failures(tx: Tx, id: str) -> int:
    """How often in a row a repository's origin could not be read."""
    row = await tx.row("SELECT sync_failures FROM repos WHERE id = %(id)s", {"id": id})
    return int(row["sync_failures"]) if row else 0


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


async def end_sync(
    tx: Tx, id: str, epoch: int, now: datetime, failure: str | None, after: datetime | None = None
) -> bool:
    """Stop being the one and note what came of it; False when another look has begun since.

    `after`: it is not looked at by itself before.
    """
    return bool(
        await tx.run(
            """
            UPDATE repos SET sync_until = NULL, synced_at = %(now)s, failure = %(failure)s, sync_after = %(after)s,
                             sync_failures = CASE WHEN %(failure)s::text IS NULL THEN 0 ELSE sync_failures + 1 END
            WHERE id = %(id)s AND sync_epoch = %(epoch)s
            """,
            {"id": id, "epoch": epoch, "now": now, "failure": failure, "after": after},
        )
    )
