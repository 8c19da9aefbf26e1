"""Letters and links in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Json, Tx
from rift.mail.model import Kind, Letter, Link


async def hold_address(tx: Tx, email: str) -> None:
    """Have this transaction alone post letters to an address until it ends, so that they are counted right."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(lower(%(email)s), 12))", {"email": email})


async def count_letters(tx: Tx, kind: Kind, email: str, since: datetime) -> int:
    """How many letters of a kind were posted to an address since then."""
    row = await tx.row(
        """
        SELECT count(*) AS count FROM letters
        WHERE lower(email) = lower(%(email)s) AND kind = %(kind)s AND created_at > %(since)s
        """,
        {"kind": kind, "email": email, "since": since},
    )
    return int(row["count"]) if row else 0


async def insert_letter(tx: Tx, letter: Letter) -> None:
    """Add a letter that waits to be sent."""
    await tx.run(
        """
        INSERT INTO letters (id, kind, email, facts, created_at, next_at)
        VALUES (%(id)s, %(kind)s, %(email)s, %(facts)s, %(created_at)s, %(next_at)s)
        """,
        {
            "id": letter.id, "kind": letter.kind, "email": letter.email, "facts": Json(dict(letter.facts)),
            "created_at": letter.created_at, "next_at": letter.next_at,
        },
    )  # fmt: skip


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


async def forget_links(tx: Tx, before: datetime) -> int:
    """Delete the links that were over before an instant; how many that were."""
    return await tx.run("DELETE FROM links WHERE expires_at < %(before)s", {"before": before})
