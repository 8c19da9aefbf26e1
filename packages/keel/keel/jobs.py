"""Background work on Postgres: procrastinate's queue, with jobs deferred inside the transaction that wants them.

A job looks at what is and what should be and does the next step, so that running it twice is harmless. Nothing relies
on a job alone: a scan every few seconds (`Jobs.every`) finds what a lost one left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Generic, TypeVar

import structlog
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.exceptions import UniqueViolation as QueueingLockTaken
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from psycopg import AsyncConnection, OperationalError
from psycopg_pool import PoolTimeout

from keel.db import Json, Tx, UniqueViolation
from keel.telemetry import logs, tracing

log = structlog.get_logger()

Deps = TypeVar("Deps")

Around = Callable[[str], AbstractContextManager[object]]
"""Entered around each job, with its name."""

TRACE = "_trace"
"""The argument that carries the place in the trace of the call that deferred a job."""
HEARTBEAT_SECONDS = 3.0
DEAD_AFTER_SECONDS = 20.0
"""A worker unheard for so long is dead, whatever its session says: the jobs it was doing are queued again."""
LOCKS = 0x6B65656C
"""The class of the advisory locks that workers hold, one each, for as long as they live."""


async def defer(
    tx: Tx,
    name: str,
    /,
    *,
    lock: str | None = None,
    once: str | None = None,
    **arguments: object,
) -> bool:
    """Queue a job by its name; it runs after this transaction commits, or never if it rolls back.

    `lock`: jobs of one lock run one at a time. `once`: while a job of this `once` waits, a second is not queued
    (False is returned).
    """
    place = tracing.here()
    if place is not None:
        arguments[TRACE] = place
    params = {"task": name, "lock": lock, "once": once, "arguments": Json(arguments)}
    try:
        async with tx.savepoint():
            await tx.run(
                """
                SELECT procrastinate_defer_jobs_v1(ARRAY[ROW(
                    'default', %(task)s, 0, %(lock)s, %(once)s, %(arguments)s, NULL
                )::procrastinate_job_to_defer_v1])
                """,
                params,
            )
    except UniqueViolation:
        return False
    return True


class _Workers(JobManager):
    """Registers a worker together with a lock of its own session, which ends with the process, however that ends.

    So a worker that was killed is known at once, on whatever host it ran.
    """

    def __init__(self, connector: BaseConnector) -> None:
        super().__init__(connector)
        self.session: AsyncConnection[Any] | None = None
        self.registered = asyncio.Event()

    async def register_worker(self) -> int:
        """The worker's row, which nobody sees before its lock is held."""
        assert self.session is not None  # `Jobs` opened it
        cursor = await self.session.execute(
            "SELECT worker_id, pg_advisory_lock(%s, worker_id::int) FROM procrastinate_register_worker_v1()", [LOCKS]
        )
        row = await cursor.fetchone()
        assert row is not None  # it is made by this statement
        self.registered.set()
        return int(row[0])

    async def dead(self) -> list[int]:
        """The workers whose session has ended."""
        rows = await self.connector.execute_query_all_async(
            """
            SELECT id FROM procrastinate_workers WHERE id NOT IN (
                SELECT objid::bigint FROM pg_locks
                WHERE locktype = 'advisory' AND classid = %(locks)s::oid AND objsubid = 2
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
            """,
            locks=LOCKS,
        )
        return [row["id"] for row in rows]

    async def look(self) -> None:
        """Have every worker look for jobs, as when one is queued: to queue one again tells nobody by itself."""
        told = '{"type": "job_inserted", "job_id": 0}'
        await self.connector.execute_query_async("SELECT pg_notify('procrastinate_any_queue_v1', %(told)s)", told=told)


class Jobs(Generic[Deps]):
    """What a worker can do: jobs by name, and jobs that come round by themselves.

    Declared before `work` runs; each job is an async function that takes the deps and its arguments.
    """

    def __init__(self, url: str, around: Around = nullcontext) -> None:
        self._around = around
        self._app = App(
            connector=PsycopgConnector(conninfo=url, min_size=1, max_size=6),
            worker_defaults={
                "update_heartbeat_interval": HEARTBEAT_SECONDS,
                "stalled_worker_timeout": DEAD_AFTER_SECONDS,
                "delete_jobs": "always",
            },
        )
        self._url = url
        self._workers = self._app.job_manager = _Workers(self._app.job_manager.connector)
        self._deps: Deps | None = None

    def on(self, name: str, run: Callable[..., Awaitable[None]]) -> None:
        """Run `run(deps, **arguments)` for each job of this name. A job that raises is logged; its scan comes again."""

        async def job(context: JobContext, /, **arguments: Any) -> None:
            deferred = tracing.parse(arguments.pop(TRACE, None))
            with self._watched(name, context, deferred):
                await run(self._ready(), **arguments)

        self._app.task(name=name, pass_context=True)(job)

    def every(self, name: str, seconds: int, run: Callable[[Deps], Awaitable[None]]) -> None:
        """Run `run(deps)` every so many seconds (a divisor of 60), in one worker of any number, never twice at once."""

        async def job(context: JobContext, timestamp: int) -> None:
            with self._watched(name, context, None):
                await run(self._ready())

        task = self._app.task(name=name, lock=name, queueing_lock=name, pass_context=True)(job)
        self._app.periodic(cron=f"* * * * * */{seconds}")(task)

    @contextmanager
    def _watched(self, name: str, context: JobContext, deferred: tracing.Place | None) -> Iterator[None]:
        """The job's name and id in its log lines; a span where a traced call deferred it; whatever `around` does."""
        with (
            logs.about(job=name, job_id=context.job.id or 0),
            tracing.span(f"job {name}", kind="consumer", parent=deferred, job=name),
            self._around(name),
        ):
            yield

    async def work(self, deps: Deps, *, at_once: int = 8) -> None:
        """Work until cancelled, `at_once` jobs at a time. Jobs of a worker that died are taken up again.

        A database that goes away ends nothing: it is logged, and the work begins again once it is back.
        """
        self._deps = deps
        while True:
            try:
                # A task of its own: before Python 3.13 a group whose part fails leaves its task marked as cancelled.
                await asyncio.create_task(self._work(at_once), name="jobs")
            except* (ConnectorException, OperationalError, PoolTimeout) as away:
                log.error("jobs.database_away", errors=[str(error.__cause__ or error) for error in away.exceptions])
            # Told to end while the database was away: the group raised only the latter.
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _work(self, at_once: int) -> None:
        self._workers.registered.clear()
        async with (
            self._app.open_async(),
            await AsyncConnection.connect(self._url, autocommit=True) as session,
        ):
            self._workers.session = session
            await self._recover()  # what is left belongs to the first that this worker does
            await self._work_on(at_once, session)

    async def _work_on(self, at_once: int, session: AsyncConnection[Any]) -> None:
        async with asyncio.TaskGroup() as group:
            recovering, living = group.create_task(self._keep_recovering()), group.create_task(self._live(session))
            await self._app.run_worker_async(
                concurrency=at_once, install_signal_handlers=False, shutdown_graceful_timeout=2.0
            )
            # It ended by itself, without an error: it does that when the connection it listens on is lost.
            log.warning("jobs.worker_ended")
            recovering.cancel()
            living.cancel()

    async def _live(self, session: AsyncConnection[Any]) -> None:
        """Watch over the session by which others know that this worker lives: with it the worker ends.

        Raises OperationalError when it is lost.
        """
        await self._workers.registered.wait()
        async for _ in session.notifies():
            pass

    def _ready(self) -> Deps:
        if self._deps is None:
            raise RuntimeError("the jobs have no deps before work() runs")
        return self._deps

    async def _keep_recovering(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._recover()

    async def _recover(self) -> None:
        """Queue again what dead workers were doing."""
        for worker in await self._workers.dead():
            log.warning("jobs.worker_died", worker=worker)
            await self._workers.unregister_worker(worker)  # what it was doing belongs to nobody now
        stalled = list(await self._workers.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER_SECONDS))
        for job in stalled:
            log.warning("jobs.taken_up_again", job=job.task_name, id=job.id)
            with suppress(ConnectorException):  # it ended after all: its worker was slow, not dead
                await self._take_up(job)
        if stalled:
            await self._workers.look()

    async def _take_up(self, stalled: Job) -> None:
        """Queue a dead worker's job again; where another of its `once` waits, that one runs in its place."""
        try:
            await self._app.job_manager.retry_job(stalled)
        except QueueingLockTaken:  # and the one that waits needs the lock that this one still holds
            await self._app.job_manager.finish_job(stalled, Status.FAILED, delete_job=True)
