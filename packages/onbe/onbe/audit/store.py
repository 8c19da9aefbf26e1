"""Refusals that name nobody, counted. Takes a transaction and never commits."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx


async def count_stranger(tx: Tx, reason: str, since: datetime) -> int:
    """Count one more refusal of a reason in the window that began at `since`; how many that makes."""
    row = await tx.row(
        """
        INSERT INTO strangers AS known (reason, since, count) VALUES (%(reason)s, %(since)s, 1)
        ON CONFLICT (reason, since) DO UPDATE SET count = known.count + 1
        RETURNING count
        """,
        {"reason": reason, "since": since},
    )
    assert row is not None  # an upsert that does update gives its row
    return int(row["count"])


async def close_windows(tx: Tx, before: datetime, most: int) -> list[tuple[str, datetime, int]]:
    """Take away at most `most` windows that began before an instant: reason, beginning and count of each, once."""
    rows = await tx.rows(
        """
        DELETE FROM strangers WHERE (reason, since) IN (
            SELECT reason, since FROM strangers WHERE since < %(before)s
            ORDER BY since, reason LIMIT %(most)s FOR UPDATE SKIP LOCKED
        ) RETURNING reason, since, count
        """,
        {"before": before, "most": most},
    )
    return sorted((row["reason"], row["since"], row["count"]) for row in rows)
