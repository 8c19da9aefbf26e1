"""Who stands behind a box at this moment, in Postgres."""

from __future__ import annotations

from keel.db import Tx
from rift.verbs.model import Speaker, Standing


async def standing(tx: Tx, speaker: Speaker) -> Standing | None:
    """The box of this agent, unlocked; None where the agent is over: its box ends, or a newer one runs it."""
    return await tx.one(
        Standing,
        """
        SELECT b.id AS box, b.name, b.state, b.repo, b.task, coalesce(t.status = 'open', false) AS open, t.owner,
               coalesce(u.disabled_at IS NOT NULL, false) AS disabled
        FROM boxes b LEFT JOIN tasks t ON t.id = b.task LEFT JOIN users u ON u.id = t.owner
        WHERE b.id = %(box)s AND b.incarnation = %(incarnation)s AND b.token_sha256 = %(token)s
          AND b.state IN ('starting', 'running', 'parked')
        """,
        {"box": speaker.box, "incarnation": speaker.incarnation, "token": speaker.token_sha256},
    )
