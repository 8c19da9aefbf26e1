"""How Onbe stands, over all nouns at once: statements that only read and count."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from keel.db import Tx


@dataclass(frozen=True, slots=True)
class Standing:
    """The step of the schema, and the age of the oldest record that is not sealed, in seconds; None for none."""

    step: str | None
    unsealed_age: float | None


async def standing(tx: Tx) -> Standing | None:
    """What readiness asks of the database."""
    return await tx.one(
        Standing,
        """
        SELECT (SELECT version_num FROM alembic_version) AS step,
               (SELECT greatest(0, extract(epoch FROM now() - r.at))::float FROM ledger r
                WHERE r.seq > coalesce((SELECT settled FROM ledger_checkpoints ORDER BY number DESC LIMIT 1), 0)
                  AND NOT EXISTS (SELECT FROM ledger_leaves l WHERE l.seq = r.seq)
                ORDER BY r.seq LIMIT 1) AS unsealed_age
        """,
    )


@dataclass(frozen=True, slots=True)
class Count:
    """One number."""

    what: str
    n: float


async def counts(tx: Tx) -> list[Count]:
    """Every number there is. Each part reads an index of what is alive, never the whole history."""
    return await tx.all(
        Count,
        """
        SELECT 'tasks' AS what, count(*)::float AS n FROM tasks WHERE ended_at IS NULL
        UNION ALL
        SELECT 'agents', count(*) FROM agents
        UNION ALL
        SELECT 'unsealed', greatest(0, coalesce(pg_sequence_last_value('ledger_seq'), 0)
               - coalesce((SELECT settled FROM ledger_checkpoints ORDER BY number DESC LIMIT 1), 0))
        UNION ALL
        SELECT 'sealed', extract(epoch FROM now() - max(at)) FROM ledger_checkpoints HAVING max(at) IS NOT NULL
        """,
    )


async def time_of(tx: Tx) -> datetime:
    """The database's own time."""
    row = await tx.row("SELECT now() AS at")
    assert row is not None  # a SELECT without FROM is one row
    found: datetime = row["at"]
    return found


async def laid(tx: Tx) -> bool:
    """Whether there is a schema at all."""
    row = await tx.row("SELECT to_regclass('alembic_version') IS NOT NULL AS laid")
    return row is not None and bool(row["laid"])
