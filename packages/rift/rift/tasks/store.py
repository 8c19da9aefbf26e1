"""Tasks in Postgres. Takes a transaction, returns models, never commits and never decides."""

from __future__ import annotations

from datetime import datetime

from keel.db import Tx
from rift.tasks.model import Task


async def find_locked(tx: Tx, id: str) -> Task | None:
    """The task, locked: it cannot close or change hands until this transaction ends."""
    return await tx.one(Task, "SELECT * FROM tasks WHERE id = %(id)s FOR NO KEY UPDATE", {"id": id})


async def lock_owner(tx: Tx, owner: str) -> None:
    """Until the commit nobody else opens a task of this person, so that of any number at the limit one gets in."""
    await tx.run("SELECT pg_advisory_xact_lock(hashtextextended(%(owner)s, 9))", {"owner": owner})


async def insert(tx: Tx, task: Task) -> bool:
    """Add a task; False when its id is taken."""
    return bool(
        await tx.run(
            """
            INSERT INTO tasks (id, owner, name, status, secret_sha256, holder, held_since, activity_at, created_at)
            VALUES (%(id)s, %(owner)s, %(name)s, 'open', %(secret)s, %(holder)s, %(held_since)s, %(activity_at)s,
                    %(created_at)s)
            ON CONFLICT (id) DO NOTHING
            """,
            {
                "id": task.id,
                "owner": task.owner,
                "name": task.name,
                "secret": task.secret_sha256,
                "holder": task.holder,
                "held_since": task.held_since,
                "activity_at": task.activity_at,
                "created_at": task.created_at,
            },
        )
    )


async def touch(tx: Tx, id: str, now: datetime) -> None:
    """Move the activity clock of a locked task forward, never back."""
    await tx.run(
        "UPDATE tasks SET activity_at = greatest(activity_at, %(now)s) WHERE id = %(id)s", {"id": id, "now": now}
    )


async def hold(tx: Tx, id: str, replaces: bytes | None, secret: bytes, holder: str, now: datetime) -> Task | None:
    """Put a new lease in the place of `replaces`. None when another was there first."""
    return await tx.one(
        Task,
        """
        UPDATE tasks
        SET secret_sha256 = %(secret)s, holder = %(holder)s, held_since = %(now)s
        WHERE id = %(id)s AND status = 'open' AND secret_sha256 IS NOT DISTINCT FROM %(replaces)s
        RETURNING *
        """,
        {"id": id, "replaces": replaces, "secret": secret, "holder": holder, "now": now},
    )


async def release(tx: Tx, id: str) -> None:
    """Give the lease up."""
    await tx.run(
        "UPDATE tasks SET secret_sha256 = NULL, holder = NULL, held_since = NULL WHERE id = %(id)s", {"id": id}
    )


async def close(tx: Tx, id: str, now: datetime) -> None:
    """Close an open task; its lease ends with it."""
    await tx.run(
        """
        UPDATE tasks SET status = 'closed', closed_at = %(now)s, secret_sha256 = NULL, holder = NULL, held_since = NULL
        WHERE id = %(id)s AND status = 'open'
        """,
        {"id": id, "now": now},
    )


async def open_of(tx: Tx, owner: str) -> list[Task]:
    """A person's open tasks, the longest open first."""
    return await tx.all(
        Task,
        "SELECT * FROM tasks WHERE owner = %(owner)s AND status = 'open' ORDER BY created_at, id",
        {"owner": owner},
    )


async def of_put_out(tx: Tx) -> list[str]:
    """Ids of open tasks of people who were put out."""
    rows = await tx.rows(
        """
        SELECT t.id FROM tasks t JOIN users u ON u.id = t.owner
        WHERE t.status = 'open' AND u.disabled_at IS NOT NULL ORDER BY t.created_at LIMIT 100
        """
    )
    return [row["id"] for row in rows]


async def quiet_since(tx: Tx, before: datetime) -> list[str]:
    """Ids of open tasks without activity since `before`."""
    rows = await tx.rows(
        "SELECT id FROM tasks WHERE status = 'open' AND activity_at <= %(before)s ORDER BY activity_at LIMIT 100",
        {"before": before},
    )
    return [row["id"] for row in rows]
