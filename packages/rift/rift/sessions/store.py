"""Sessions in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from keel.db import Json, Tx
from rift.sessions.model import Ceremony, Kind, Session

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


async def of_user(tx: Tx, user: str, now: datetime, quiet: datetime) -> list[Session]:
    """A person's sessions that are good now, the one that was used last first."""
    return await tx.all(
        Session,
        _SESSIONS + "AND s.user_id = %(user)s ORDER BY s.seen_at DESC, s.created_at DESC, s.id",
        {"user": user, "now": now, "quiet": quiet},
    )


async def end(tx: Tx, user: str, id: str, now: datetime) -> int:
    """End one session of this person; how many that were."""
    return await tx.run(
        "UPDATE sessions SET ended_at = %(now)s WHERE id = %(id)s AND user_id = %(user)s AND ended_at IS NULL",
        {"id": id, "user": user, "now": now},
    )


async def end_replaced(tx: Tx, id: str, now: datetime) -> None:
    """End the session of a browser in which somebody signs in anew, whoever they were there."""
    await tx.run(
        "UPDATE sessions SET ended_at = %(now)s WHERE id = %(id)s AND ended_at IS NULL", {"id": id, "now": now}
    )


async def end_all(tx: Tx, user: str, but: str | None, now: datetime) -> int:
    """End every session of a person, `but` one; how many that were."""
    return await tx.run(
        """
        UPDATE sessions SET ended_at = %(now)s
        WHERE user_id = %(user)s AND id IS DISTINCT FROM %(but)s AND ended_at IS NULL
        """,
        {"user": user, "but": but, "now": now},
    )


async def end_disabled(tx: Tx, now: datetime) -> int:
    """End the sessions of who was put out, so that they do not come back with the person; how many that were."""
    return await tx.run(
        """
        UPDATE sessions s SET ended_at = %(now)s FROM users u
        WHERE u.id = s.user_id AND u.disabled_at IS NOT NULL AND s.ended_at IS NULL
        """,
        {"now": now},
    )


async def forget(tx: Tx, before: datetime, quiet: datetime) -> int:
    """Delete the sessions that were over before an instant; `quiet`: those last seen by then were over, too."""
    return await tx.run(
        "DELETE FROM sessions WHERE ended_at < %(before)s OR expires_at < %(before)s OR seen_at < %(quiet)s",
        {"before": before, "quiet": quiet},
    )


async def insert_ceremony(
    tx: Tx, kind: Kind, sha256: bytes, user: str | None, facts: Mapping[str, object], now: datetime, until: datetime
) -> None:
    """Add what a browser begins; its secret is known by its digest alone."""
    await tx.run(
        """
        INSERT INTO ceremonies (sha256, kind, user_id, facts, created_at, expires_at)
        VALUES (%(sha256)s, %(kind)s, %(user)s, %(facts)s, %(now)s, %(until)s)
        """,
        {"sha256": sha256, "kind": kind, "user": user, "facts": Json(dict(facts)), "now": now, "until": until},
    )


async def take_ceremony(tx: Tx, kind: Kind, sha256: bytes, now: datetime) -> Ceremony | None:
    """Take what a browser began, so that of any number who end it one does; None when it is over or unknown."""
    return await tx.one(
        Ceremony,
        """
        DELETE FROM ceremonies WHERE sha256 = %(sha256)s AND kind = %(kind)s AND expires_at > %(now)s
        RETURNING user_id AS "user", facts
        """,
        {"sha256": sha256, "kind": kind, "now": now},
    )


async def forget_ceremonies(tx: Tx, before: datetime) -> int:
    """Delete what nobody ended in time."""
    return await tx.run("DELETE FROM ceremonies WHERE expires_at < %(before)s", {"before": before})
