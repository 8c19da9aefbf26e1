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
        INSERT INTO letters (id, kind, email, facts, created_at, until, next_at)
        VALUES (%(id)s, %(kind)s, %(email)s, %(facts)s, %(created_at)s, %(until)s, %(next_at)s)
        """,
        {
            "id": letter.id, "kind": letter.kind, "email": letter.email, "facts": Json(dict(letter.facts)),
            "created_at": letter.created_at, "until": letter.until, "next_at": letter.next_at,
        },
    )  # fmt: skip


async def find_letter(tx: Tx, id: str) -> Letter | None:
    """One letter."""
    return await tx.one(Letter, "SELECT * FROM letters WHERE id = %(id)s", {"id": id})


async def letters(tx: Tx, limit: int, skip: int) -> list[Letter]:
    """Letters, newest first, after so many of them."""
    return await tx.all(
        Letter,
        "SELECT * FROM letters ORDER BY created_at DESC, id DESC LIMIT %(limit)s OFFSET %(skip)s",
        {"limit": limit, "skip": skip},
    )


async def states(tx: Tx) -> dict[str, int]:
    """How many letters wait (`waiting`), and how many were given up (`failed`)."""
    row = await tx.row(
        """
        SELECT count(*) FILTER (WHERE next_at IS NOT NULL) AS waiting,
               count(*) FILTER (WHERE next_at IS NULL AND sent_at IS NULL) AS failed
        FROM letters
        """
    )
    return row or {}


async def due(tx: Tx, now: datetime, limit: int) -> list[str]:
    """The letters that are to be sent now, those first that have waited longest."""
    rows = await tx.rows(
        "SELECT id FROM letters WHERE next_at <= %(now)s ORDER BY next_at, id LIMIT %(limit)s",
        {"now": now, "limit": limit},
    )
    return [row["id"] for row in rows]


async def claim(tx: Tx, id: str, now: datetime, leave_until: datetime) -> Letter | None:
    """Take a letter that is due: of any number who try, one gets it, and the others leave it alone until then."""
    return await tx.one(
        Letter,
        """
        UPDATE letters SET tries = tries + 1, next_at = %(leave)s, failure = NULL
        WHERE id = %(id)s AND next_at <= %(now)s RETURNING *
        """,
        {"id": id, "now": now, "leave": leave_until},
    )


async def sent(tx: Tx, letter: Letter, now: datetime) -> bool:
    """Note that a letter is sent, whoever has tried it since: it is. False where it was noted, or is gone."""
    return bool(
        await tx.run(
            """
            UPDATE letters SET sent_at = %(now)s, next_at = NULL, failure = NULL
            WHERE id = %(id)s AND sent_at IS NULL
            """,
            {"id": letter.id, "now": now},
        )
    )


async def failed(tx: Tx, letter: Letter, failure: str, next_at: datetime | None) -> bool:
    """Note why this try failed, and when the next is; False where it is not this one's turn any more."""
    return bool(
        await tx.run(
            """
            UPDATE letters SET failure = %(failure)s, next_at = %(next_at)s
            WHERE id = %(id)s AND tries = %(tries)s AND sent_at IS NULL
            """,
            {"id": letter.id, "tries": letter.tries, "failure": failure, "next_at": next_at},
        )
    )


async def again(tx: Tx, id: str, now: datetime, until: datetime) -> Letter | None:
    """Have a letter that was not sent tried anew, from now; None where there is none, or it was sent.

    One that is being sent at this moment keeps its turn: it is not sent twice for this.
    """
    return await tx.one(
        Letter,
        """
        UPDATE letters SET until = %(until)s,
            next_at = CASE WHEN next_at > %(now)s AND failure IS NULL AND tries > 0 THEN next_at ELSE %(now)s END
        WHERE id = %(id)s AND sent_at IS NULL RETURNING *
        """,
        {"id": id, "now": now, "until": until},
    )


async def delete_letter(tx: Tx, id: str) -> Letter | None:
    """Remove a letter, whatever its state."""
    return await tx.one(Letter, "DELETE FROM letters WHERE id = %(id)s RETURNING *", {"id": id})


async def recall(tx: Tx, invitation: str) -> int:
    """Remove the letters of an invitation that are not sent yet."""
    return await tx.run(
        "DELETE FROM letters WHERE facts ->> 'invitation' = %(invitation)s AND sent_at IS NULL",
        {"invitation": invitation},
    )


async def erase(tx: Tx, before: datetime) -> int:
    """Remove the letters that were written before then."""
    return await tx.run("DELETE FROM letters WHERE created_at < %(before)s", {"before": before})


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
