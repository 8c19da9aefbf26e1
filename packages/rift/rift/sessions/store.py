"""Sessions in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.sessions.model import Session

_SESSIONS = """
    SELECT s.id, s.user_id AS "user", u.email, u.admin, s.method, s.agent, s.created_at, s.seen_at, s.expires_at
    FROM sessions s JOIN users u ON u.id = s.user_id
    WHERE s.ended_at IS NULL AND u.disabled_at IS NULL AND s.expires_at > %(now)s AND s.seen_at > %(quiet)s
"""


async def insert(tx: Tx, session: Session, sha256: bytes) -> None:
    """Add a session; its secret is known by its digest alone."""
    await tx.run(
        """
        INSERT INTO sessions (id, user_id, sha256, method, agent, created_at, seen_at, expires_at)
        VALUES (%(id)s, %(user)s, %(sha256)s, %(method)s, %(agent)s, %(at)s, %(at)s, %(until)s)
        """,
        {
            "id": session.id, "user": session.user, "sha256": sha256, "method": session.method,
            "agent": session.agent, "at": session.created_at, "until": session.expires_at,
        },
    )  # fmt: skip


async def find(tx: Tx, sha256: bytes, now: datetime, quiet: datetime) -> Session | None:
    """The session of this digest, if it is good now: not last seen before `quiet`, its person not put out."""
    return await tx.one(
        Session, _SESSIONS + "AND s.sha256 = %(sha256)s", {"sha256": sha256, "now": now, "quiet": quiet}
    )


async def seen(tx: Tx, id: str, now: datetime) -> None:
    """Note that a session is used. Whoever finds its row busy goes on: the other one notes the same minute."""
    await tx.run(
        """
        UPDATE sessions SET seen_at = %(now)s
        WHERE id = (SELECT id FROM sessions WHERE id = %(id)s AND ended_at IS NULL FOR UPDATE SKIP LOCKED)
        """,
        {"id": id, "now": now},
    )


async def end(tx: Tx, id: str, now: datetime) -> None:
    """End one session."""
    await tx.run(
        "UPDATE sessions SET ended_at = %(now)s WHERE id = %(id)s AND ended_at IS NULL", {"id": id, "now": now}
    )
