"""Identities in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.identities.model import Identity

_IDENTITIES = """
    SELECT i.issuer, i.subject, i.user_id AS "user", u.email, i.created_at
    FROM identities i JOIN users u ON u.id = i.user_id
"""


async def find(tx: Tx, issuer: str, subject: str) -> Identity | None:
    """Whose account this identity has."""
    return await tx.one(
        Identity,
        _IDENTITIES + "WHERE i.issuer = %(issuer)s AND i.subject = %(subject)s",
        {"issuer": issuer, "subject": subject},
    )


async def of_user(tx: Tx, user: str) -> list[Identity]:
    """The identities of a person, oldest first."""
    return await tx.all(
        Identity, _IDENTITIES + "WHERE i.user_id = %(user)s ORDER BY i.created_at, i.issuer, i.subject", {"user": user}
    )


async def insert(tx: Tx, issuer: str, subject: str, user: str, now: datetime) -> bool:
    """Link an identity with an account; False when it is linked already."""
    return bool(
        await tx.run(
            """
            INSERT INTO identities (issuer, subject, user_id, created_at)
            VALUES (%(issuer)s, %(subject)s, %(user)s, %(now)s) ON CONFLICT DO NOTHING
            """,
            {"issuer": issuer, "subject": subject, "user": user, "now": now},
        )
    )


async def remove(tx: Tx, user: str, issuer: str, subject: str) -> int:
    """Unlink an identity of this person's; how many that were."""
    return await tx.run(
        "DELETE FROM identities WHERE user_id = %(user)s AND issuer = %(issuer)s AND subject = %(subject)s",
        {"user": user, "issuer": issuer, "subject": subject},
    )
