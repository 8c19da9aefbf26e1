"""Tasks in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keel.db import Tx
from onbe.tasks.model import EndReason, Task

# Reading -------------------------------------------------------------------------------------------------------------


def _task(row: dict[str, Any]) -> Task:
    """A row as a `Task`: all but the digest of its grant."""
    return Task(**{name: value for name, value in row.items() if name != "grant_sha256"})


async def find(tx: Tx, id: str) -> Task | None:
    """A task by its id."""
    row = await tx.row("SELECT * FROM tasks WHERE id = %(id)s", {"id": id})
    return _task(row) if row else None


async def find_by_grant(tx: Tx, grant_sha256: bytes) -> Task | None:
    """The task of a grant, by the digest of it."""
    row = await tx.row("SELECT * FROM tasks WHERE grant_sha256 = %(grant)s", {"grant": grant_sha256})
    return _task(row) if row else None


async def page(
    tx: Tx, *, agent: str | None, sponsor: str | None, open: bool | None, before: str | None, limit: int, now: datetime
) -> list[Task]:
    """At most `limit` tasks, the newest first; those whose id sorts below `before`. `open`: alive, or not any more."""
    rows = await tx.rows(
        """
        SELECT * FROM tasks
        WHERE (%(agent)s::text IS NULL OR agent = %(agent)s)
          AND (%(sponsor)s::text IS NULL OR sponsor = %(sponsor)s)
          AND (%(open)s::boolean IS NULL OR (ended_at IS NULL AND expires_at > %(now)s) = %(open)s)
          AND (%(before)s::text IS NULL OR id < %(before)s)
        ORDER BY id DESC LIMIT %(limit)s
        """,
        {"agent": agent, "sponsor": sponsor, "open": open, "before": before, "limit": limit, "now": now},
    )
    return [_task(row) for row in rows]


async def count_open(tx: Tx, sponsor: str, now: datetime) -> int:
    """How many tasks of a person are alive."""
    row = await tx.row(
        "SELECT count(*) AS open FROM tasks WHERE sponsor = %(sponsor)s AND ended_at IS NULL AND expires_at > %(now)s",
        {"sponsor": sponsor, "now": now},
    )
    return int(row["open"]) if row else 0


# Ending --------------------------------------------------------------------------------------------------------------


async def open_of_agent(tx: Tx, agent: str) -> list[tuple[str, str]]:
    """The tasks of an agent that have no end yet, each with its sponsor."""
    rows = await tx.rows("SELECT id, sponsor FROM tasks WHERE agent = %(agent)s AND ended_at IS NULL", {"agent": agent})
    return [(row["id"], row["sponsor"]) for row in rows]


async def open_of_sponsor(tx: Tx, sponsor: str) -> list[str]:
    """The tasks for a person that have no end yet."""
    rows = await tx.rows("SELECT id FROM tasks WHERE sponsor = %(sponsor)s AND ended_at IS NULL", {"sponsor": sponsor})
    return [row["id"] for row in rows]


async def end(tx: Tx, ids: Sequence[str], reason: EndReason, now: datetime) -> list[Task]:
    """End tasks, and all that is delegated from them; those that this ended, a parent before its children.

    One that had expired by `now` ends as expired, and was not revoked. The caller holds the rows of their sponsors, so
    that nothing is delegated from these tasks meanwhile, and nobody else ends them.
    """
    rows = await tx.rows(
        """
        WITH RECURSIVE reached (id, root) AS (
            SELECT id, true FROM tasks WHERE id = ANY(%(ids)s) AND ended_at IS NULL
            UNION
            SELECT child.id, false FROM tasks child JOIN reached ON child.parent = reached.id
            WHERE child.ended_at IS NULL
        ),
        ending AS (SELECT id, bool_or(root) AS root FROM reached GROUP BY id),
        ended AS (
            UPDATE tasks
            SET ended_at = least(expires_at, %(now)s),
                "end" = CASE WHEN expires_at <= %(now)s THEN 'expired' ELSE 'revoked' END,
                end_reason = CASE WHEN expires_at <= %(now)s THEN NULL
                                  WHEN root THEN %(reason)s::text
                                  ELSE 'parent_revoked' END
            FROM ending WHERE tasks.id = ending.id AND tasks.ended_at IS NULL
            RETURNING tasks.*
        )
        SELECT * FROM ended ORDER BY depth, id
        """,
        {"ids": list(ids), "reason": reason, "now": now},
    )
    return [_task(row) for row in rows]


async def expire(tx: Tx, now: datetime, most: int) -> list[Task]:
    """Mark at most `most` tasks whose time is over; those that this marked, in the order of their expiry.

    Rows that somebody else holds at the moment (a refresh, a switch, another sweeper) are left for the next time.
    """
    rows = await tx.rows(
        """
        WITH due AS (
            SELECT id FROM tasks WHERE ended_at IS NULL AND expires_at <= %(now)s
            ORDER BY expires_at LIMIT %(most)s FOR NO KEY UPDATE SKIP LOCKED
        ),
        ended AS (
            UPDATE tasks SET ended_at = expires_at, "end" = 'expired' FROM due
            WHERE tasks.id = due.id AND tasks.ended_at IS NULL
            RETURNING tasks.*
        )
        SELECT * FROM ended ORDER BY expires_at, id
        """,
        {"now": now, "most": most},
    )
    return [_task(row) for row in rows]


async def forget(tx: Tx, before: datetime, most: int) -> int:
    """Delete at most `most` tasks that ended before an instant and from which no stored one was delegated; how many."""
    return await tx.run(
        """
        DELETE FROM tasks WHERE id IN (
            SELECT id FROM tasks old WHERE ended_at < %(before)s
            AND NOT EXISTS (SELECT FROM tasks child WHERE child.parent = old.id)
            ORDER BY ended_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
        )
        """,
        {"before": before, "most": most},
    )
