"""How boxes, commands, pools and the queue stand, over all nouns at once: one statement that only reads and counts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from keel.db import Tx

POOLS_MOST = 100
"""So many pools are told one by one, the oldest watches first; the others as one."""
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class Count:
    """One number: of what, and which of them (as `boxes`, `running`, `warm`)."""

    what: str
    one: str
    two: str
    n: float


async def counts(tx: Tx, unheard_before: datetime) -> list[Count]:
    """Every number there is. Each part reads an index of what is alive, never the whole history."""
    return await tx.all(
        Count,
        """
        SELECT 'boxes' AS what, state AS one, CASE WHEN task IS NULL THEN 'warm' ELSE 'task' END AS two,
               count(*)::float AS n
        FROM boxes WHERE state <> 'destroyed' GROUP BY 2, 3
        UNION ALL
        SELECT 'unheard', '', '', count(*) FROM boxes WHERE state = 'running' AND seen_at < %(unheard)s
        UNION ALL
        SELECT 'commands', kind, state, count(*) FROM commands WHERE state IN ('queued', 'claimed') GROUP BY 2, 3
        UNION ALL
        SELECT 'tasks', '', '', count(*) FROM tasks WHERE status = 'open'
        UNION ALL
        SELECT 'jobs', status::text, '', count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing') GROUP BY 2
        UNION ALL
        SELECT 'workers', '', '', count(*) FROM procrastinate_workers
        UNION ALL
        SELECT 'unsealed', '', '', greatest(0, coalesce(pg_sequence_last_value('ledger_seq'), 0)
               - coalesce((SELECT settled FROM ledger_checkpoints ORDER BY number DESC LIMIT 1), 0))
        UNION ALL
        SELECT 'sealed', '', '', extract(epoch FROM now() - max(at)) FROM ledger_checkpoints HAVING max(at) IS NOT NULL
        """,
        {"unheard": unheard_before},
    )


@dataclass(frozen=True, slots=True)
class Pool:
    """A watched ref: its repository as OWNER/NAME, how many warm boxes it wants, and how many run at its head."""

    repository: str
    ref: str
    wanted: int
    ready: int


async def pools(tx: Tx) -> list[Pool]:
    """The pools, `POOLS_MOST` of them and the sum of all others."""
    return await tx.all(
        Pool,
        """
        WITH ranked AS (
            SELECT r.owner || '/' || r.name AS repository, w.ref, w.warm,
                   (SELECT count(*) FROM boxes b JOIN heads h ON h.repo = b.repo AND h.ref = b.ref
                    WHERE b.repo = w.repo AND b.ref = w.ref AND b.commit = h.commit
                      AND b.task IS NULL AND b.state = 'running') AS ready,
                   row_number() OVER (ORDER BY w.created_at, w.repo, w.ref) <= %(most)s AS told
            FROM watches w JOIN repos r ON r.id = w.repo
        )
        SELECT CASE WHEN told THEN repository ELSE %(others)s END AS repository,
               CASE WHEN told THEN ref ELSE %(others)s END AS ref,
               sum(warm)::int AS wanted, sum(ready)::int AS ready
        FROM ranked GROUP BY 1, 2
        """,
        {"most": POOLS_MOST, "others": OTHERS},
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """The step of the schema, and how long ago a worker was heard, in seconds; None for never."""

    step: str | None
    worker_age: float | None


async def standing(tx: Tx) -> Standing | None:
    """What readiness asks of the database."""
    return await tx.one(
        Standing,
        """
        SELECT (SELECT version_num FROM alembic_version) AS step,
               (SELECT extract(epoch FROM now() - max(last_heartbeat))::float FROM procrastinate_workers) AS worker_age
        """,
    )


@dataclass(frozen=True, slots=True)
class Found:
    """A box that is not destroyed; `silent`: it runs, and its agent was not heard for long or is known to be over."""

    id: str
    state: str
    silent: bool


async def boxes_now(tx: Tx, unheard_before: datetime) -> list[Found]:
    """Each box of which there should be something on a host."""
    return await tx.all(
        Found,
        """
        SELECT id, state, state = 'running' AND (token_sha256 IS NULL OR seen_at < %(unheard)s) AS silent
        FROM boxes WHERE state <> 'destroyed' ORDER BY created_at, id
        """,
        {"unheard": unheard_before},
    )


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs that wait and that are done; `orphaned` of the latter have no worker, `late` of the former wait too long."""

    waiting: int
    doing: int
    orphaned: int
    late: int


async def queue_now(tx: Tx, late_before: datetime) -> Queue:
    """How the queue stands."""
    found = await tx.one(
        Queue,
        """
        SELECT count(*) FILTER (WHERE status = 'todo') AS waiting,
               count(*) FILTER (WHERE status = 'doing') AS doing,
               count(*) FILTER (WHERE status = 'doing' AND worker_id IS NULL) AS orphaned,
               count(*) FILTER (WHERE status = 'todo' AND coalesce(scheduled_at, '-infinity') < %(late)s AND EXISTS (
                   SELECT FROM procrastinate_events e
                   WHERE e.job_id = j.id AND e.type = 'deferred' AND e.at < %(late)s)) AS late
        FROM procrastinate_jobs j WHERE status IN ('todo', 'doing')
        """,
        {"late": late_before},
    )
    assert found is not None  # an aggregate always answers
    return found
