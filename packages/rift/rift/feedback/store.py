"""Feedback in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keel.db import Tx
from rift.feedback.model import Category, Item, Said, Show

_ITEMS = """
    SELECT f.id, f.user_id, u.email, f.client, f.category, f.text, f.context, f.created_at, f.edited_at,
           f.submitted_at, f.handled_at
    FROM feedback f JOIN users u ON u.id = f.user_id
"""


async def hold_draft(tx: Tx, user: str) -> None:
    """Have this transaction alone add to a person's draft until it ends, so that it is counted right."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(user)s, 13))", {"user": user})


async def count_draft(tx: Tx, user: str) -> int:
    """How many items a person's draft holds."""
    row = await tx.row(
        "SELECT count(*) AS count FROM feedback WHERE user_id = %(user)s AND submitted_at IS NULL", {"user": user}
    )
    return int(row["count"]) if row else 0


async def insert(tx: Tx, id: str, user: str, client: str, said: Said, now: datetime) -> None:
    """Add an item to a person's draft."""
    await tx.run(
        """
        INSERT INTO feedback (id, user_id, client, category, text, context, created_at)
        VALUES (%(id)s, %(user)s, %(client)s, %(category)s, %(text)s, %(context)s, %(at)s)
        """,
        {
            "id": id, "user": user, "client": client, "category": said.category, "text": said.text,
            "context": said.context, "at": now,
        },
    )  # fmt: skip


async def draft(tx: Tx, user: str) -> list[Item]:
    """A person's draft, oldest first."""
    return await tx.all(
        Item,
        _ITEMS + "WHERE f.user_id = %(user)s AND f.submitted_at IS NULL ORDER BY f.created_at, f.id",
        {"user": user},
    )


async def submitted(tx: Tx, user: str, limit: int, skip: int) -> list[Item]:
    """What a person has submitted, newest first, after so many of them."""
    return await tx.all(
        Item,
        _ITEMS
        + """
        WHERE f.user_id = %(user)s AND f.submitted_at IS NOT NULL
        ORDER BY f.submitted_at DESC, f.id DESC LIMIT %(limit)s OFFSET %(skip)s
        """,
        {"user": user, "limit": limit, "skip": skip},
    )


async def edit(tx: Tx, id: str, user: str, said: Said, now: datetime) -> bool:
    """Change an item of a person's draft; False where there is none."""
    return bool(
        await tx.run(
            """
            UPDATE feedback SET category = %(category)s, text = %(text)s, context = %(context)s, edited_at = %(now)s
            WHERE id = %(id)s AND user_id = %(user)s AND submitted_at IS NULL
            """,
            {
                "id": id, "user": user, "category": said.category, "text": said.text, "context": said.context,
                "now": now,
            },
        )
    )  # fmt: skip


async def drop(tx: Tx, id: str, user: str) -> bool:
    """Remove an item of a person's draft; False where there is none."""
    return bool(
        await tx.run(
            "DELETE FROM feedback WHERE id = %(id)s AND user_id = %(user)s AND submitted_at IS NULL",
            {"id": id, "user": user},
        )
    )


async def submit(tx: Tx, ids: Sequence[str], user: str, now: datetime) -> int:
    """Submit items of a person's draft: how many of these were in it."""
    return await tx.run(
        """
        UPDATE feedback SET submitted_at = %(now)s
        WHERE id = ANY(%(ids)s) AND user_id = %(user)s AND submitted_at IS NULL
        """,
        {"ids": list(ids), "user": user, "now": now},
    )


async def inbox(tx: Tx, show: Show, category: Category | None, limit: int, skip: int) -> list[Item]:
    """Submitted items, newest first, after so many of them."""
    return await tx.all(
        Item,
        _ITEMS
        + """
        WHERE f.submitted_at IS NOT NULL AND (%(category)s::text IS NULL OR f.category = %(category)s)
          AND (%(show)s = 'all' OR (f.handled_at IS NULL) = (%(show)s = 'open'))
        ORDER BY f.submitted_at DESC, f.id DESC LIMIT %(limit)s OFFSET %(skip)s
        """,
        {"show": show, "category": category, "limit": limit, "skip": skip},
    )


async def count_open(tx: Tx) -> int:
    """How many submitted items are not handled yet."""
    row = await tx.row("SELECT count(*) AS count FROM feedback WHERE submitted_at IS NOT NULL AND handled_at IS NULL")
    return int(row["count"]) if row else 0


async def handle(tx: Tx, id: str, at: datetime | None) -> bool:
    """Mark a submitted item as handled, or with None as open again; what was handled before keeps its instant."""
    return bool(
        await tx.run(
            """
            UPDATE feedback SET handled_at = CASE WHEN %(at)s::timestamptz IS NULL THEN NULL
                                                  ELSE coalesce(handled_at, %(at)s) END
            WHERE id = %(id)s AND submitted_at IS NOT NULL
            """,
            {"id": id, "at": at},
        )
    )
