"""What a message of an agent that is not about a command begins with."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx


async def heard(tx: Tx, box: str, incarnation: int, token_sha256: bytes, now: datetime) -> bool:
    """Lock the box and note that its agent was heard. False when that agent is over.

    Over is: a box that ends, a newer incarnation, or a token that is not this incarnation's.
    """
    return bool(
        await tx.run(
            """
        UPDATE boxes SET seen_at = greatest(seen_at, %(now)s)
        WHERE id = %(box)s AND incarnation = %(incarnation)s AND token_sha256 = %(token)s
          AND state IN ('starting', 'running', 'parked')
        """,
            {"box": box, "incarnation": incarnation, "token": token_sha256, "now": now},
        )
    )


async def refusals_of(tx: Tx, box: str, incarnation: int, n: int) -> tuple[str | None, str | None] | None:
    """The box's task and that task's owner, for the refusals that its agent tells as number `n`; None if it told them.

    The number is remembered with its incarnation in front, as each start of an agent counts from one.
    """
    row = await tx.row(
        """
        UPDATE boxes b SET refused = %(mark)s WHERE b.id = %(box)s AND b.refused < %(mark)s
        RETURNING b.task, (SELECT t.owner FROM tasks t WHERE t.id = b.task) AS owner
        """,
        {"box": box, "mark": (incarnation << 32) + n},
    )
    return (row["task"], row["owner"]) if row else None
