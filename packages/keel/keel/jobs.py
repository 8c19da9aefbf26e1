"""Background work on Postgres: procrastinate's queue, with jobs deferred inside the transaction that wants them."""

from __future__ import annotations

from datetime import datetime

from keel.db import Json, Tx, UniqueViolation


async def defer(
    tx: Tx,
    task: str,
    *,
    lock: str | None = None,
    once: str | None = None,
    at: datetime | None = None,
    queue: str = "default",
    **arguments: object,
) -> bool:
    """Queue a job; it runs after this transaction commits, or never if it rolls back.

    `lock`: jobs of one lock run one at a time. `once`: while a job of this name waits, a second is not queued
    (False is returned). `at`: not before this instant.
    """
    params = {"queue": queue, "task": task, "lock": lock, "once": once, "arguments": Json(arguments), "at": at}
    try:
        async with tx.savepoint():
            await tx.run(
                """
                SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
                    %(queue)s, %(task)s, 0, %(lock)s, %(once)s, %(arguments)s, %(at)s
                )::procrastinate_job_to_defer_v1])
                """,
                params,
            )
    except UniqueViolation:
        return False
    return True
