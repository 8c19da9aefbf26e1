"""Letters and links in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.mail.model import Link


async def insert_link(tx: Tx, link: Link, sha256: bytes) -> None:
    """Add a link; its secret is known by its digest alone."""
    await tx.run(
        """
        INSERT INTO links (sha256, email, invitation, next, created_at, expires_at)
        VALUES (%(sha256)s, %(email)s, %(invitation)s, %(next)s, %(created_at)s, %(expires_at)s)
        """,
        {
            "sha256": sha256, "email": link.email, "invitation": link.invitation, "next": link.next,
            "created_at": link.created_at, "expires_at": link.expires_at,
        },
    )  # fmt: skip


async def find_link(tx: Tx, sha256: bytes, now: datetime) -> Link | None:
    """The link of this digest, if it is good at this moment."""
    return await tx.one(
        Link,
        "SELECT email, invitation, next, created_at, expires_at, used_at FROM links "
        "WHERE sha256 = %(sha256)s AND used_at IS NULL AND expires_at > %(now)s",
        {"sha256": sha256, "now": now},
    )


async def use_link(tx: Tx, sha256: bytes, now: datetime) -> Link | None:
    """Use the link of this digest up: of any number who try, one gets it."""
    return await tx.one(
        Link,
        """
        UPDATE links SET used_at = %(now)s
        WHERE sha256 = %(sha256)s AND used_at IS NULL AND expires_at > %(now)s
        RETURNING email, invitation, next, created_at, expires_at, used_at
        """,
        {"sha256": sha256, "now": now},
    )
