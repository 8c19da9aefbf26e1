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
