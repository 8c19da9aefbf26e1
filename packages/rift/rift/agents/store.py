"""The one statement every message of an agent begins with."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.boxes.model import State


async def heard(tx: Tx, box: str, incarnation: int, token_sha256: bytes, now: datetime) -> tuple[State, int] | None:
    """Lock the box and note that its agent was heard. Its state and epoch, or None when that agent is over.

    Over is: a box that ends, a newer incarnation, or a token that is not this incarnation's.
    """
    row = await tx.row(
        """
        UPDATE boxes SET seen_at = greatest(seen_at, %(now)s)
        WHERE id = %(box)s AND incarnation = %(incarnation)s AND token_sha256 = %(token)s
          AND state IN ('starting', 'running', 'parked')
        RETURNING state, epoch
        """,
        {"box": box, "incarnation": incarnation, "token": token_sha256, "now": now},
    )
    return (row["state"], row["epoch"]) if row else None
