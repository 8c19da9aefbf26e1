"""Postgres: a pool, transactions that speak plain SQL, and the guard that keeps slow calls out of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, LiteralString, Self, TypeVar

from psycopg import AsyncConnection, AsyncPipeline, AsyncTransaction, Error, OperationalError
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from keel.telemetry import tracing

__all__ = [
    "Busy",
    "Database",
    "Json",
    "OperationalError",
    "Tx",
    "UniqueViolation",
    "Use",
    "forbid_in_transaction",
    "within",
]

Row = TypeVar("Row")
Params = Mapping[str, object]
Json = Jsonb

CHANNEL = "keel"
"""The one NOTIFY channel; the payload is the topic."""

_inside: ContextVar[bool] = ContextVar("keel_in_transaction", default=False)


def forbid_in_transaction(what: str) -> None:
    """Raise RuntimeError when a transaction of ours is open in this task: `what` may be slow and must wait outside."""
    if _inside.get():
        raise RuntimeError(f"{what} was called inside a database transaction")


@dataclass(frozen=True, slots=True)
class Use:
    """A pool's connections at one moment: in use and free, and how many tasks wait for one."""

    used: int
    free: int
    waiting: int


class Tx:
    """One open transaction. Commits when its block ends, rolls back on an exception."""

    def __init__(self, connection: AsyncConnection[Any], pipeline: AsyncPipeline | None = None) -> None:
        self.connection = connection
        self._pipeline = pipeline

    async def one(self, shape: type[Row], sql: LiteralString, params: Params | None = None) -> Row | None:
        """The first row as a `shape` (its columns are the fields), or None."""
        async with self.connection.cursor(row_factory=class_row(shape)) as cursor:
            await cursor.execute(sql, params)
            return await cursor.fetchone()

    async def all(self, shape: type[Row], sql: LiteralString, params: Params | None = None) -> list[Row]:
        """Every row as a `shape`."""
        async with self.connection.cursor(row_factory=class_row(shape)) as cursor:
            await cursor.execute(sql, params)
            return await cursor.fetchall()

    async def row(self, sql: LiteralString, params: Params | None = None) -> dict[str, Any] | None:
        """The first row as a dict by column name, or None."""
        async with self.connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(sql, params)
            return await cursor.fetchone()

    async def rows(self, sql: LiteralString, params: Params | None = None) -> list[dict[str, Any]]:
        """Every row as a dict by column name."""
        async with self.connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(sql, params)
            return await cursor.fetchall()

    async def tuples(self, sql: LiteralString, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Every row as a tuple, sent in binary: for many rows at once."""
        async with self.connection.cursor(binary=True) as cursor:
            await cursor.execute(sql, params)
            return await cursor.fetchall()

    async def run(self, sql: LiteralString, params: Params | None = None) -> int:
        """Run a statement; how many rows it changed or gave."""
        cursor = await self.connection.execute(sql, params)
        if self._pipeline is not None:
            await self._pipeline.sync()  # what it did is known once its answer is here
        return cursor.rowcount

    async def send(self, sql: LiteralString, params: Params | None = None) -> None:
        """Run a statement of which nothing is to be known but that it did not fail.

        In a transaction of few trips it goes with the next statement that is waited for, or with the commit; there its
        failure is raised, and nothing is committed.
        """
        await self.connection.execute(sql, params)

    async def many(self, sql: LiteralString, params: Sequence[Params]) -> None:
        """Run a statement once per parameter set."""
        async with self.connection.cursor() as cursor:
            await cursor.executemany(sql, params)

    async def notify(self, *topics: str) -> None:
        """Tell every process that waits on a topic, once this transaction commits."""
        for topic in topics:
            await self.connection.execute(
                "SELECT pg_notify(%(channel)s, %(topic)s)", {"channel": CHANNEL, "topic": topic}
            )

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """A block that can fail without failing the transaction."""
        async with self.connection.transaction():
            yield


class Busy(Exception):
    """No connection became free in time: nothing of the block ran."""


@asynccontextmanager
async def within(seconds: float, what: str) -> AsyncIterator[None]:
    """A block that has so long, and is Busy then: a database that is there and does not answer holds nobody for ever.

    What it has begun is cancelled: rolled back, or, where not even that is answered, its connection is closed.
    """
    try:
        async with asyncio.timeout(seconds) as bound:
            yield
    except TimeoutError as error:
        if not bound.expired():
            raise
        raise Busy(f"{what} took longer than {seconds:g} s") from error


class Database:
    """A pool of connections to one database under one role.

    `tx` and `look` take for whom they are (`whose`, any text): of the connections, one of these has `share` at once at
    most, and waits for its turn without holding any. So what crowds on one lock leaves the rest to everybody else.
    Both raise Busy when no connection became free within `patience` seconds, the wait for a turn included.
    """

    def __init__(self, url: str, *, size: int = 12, share: int = 4, patience: float = 35.0) -> None:
        self.url = url
        self._patience, self._share = patience, share
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}
        self._pool = AsyncConnectionPool(
            url, min_size=1, max_size=size, open=False, timeout=patience, kwargs={"autocommit": True}
        )

    async def __aenter__(self) -> Self:
        await self._pool.open(wait=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.close()

    def use(self) -> Use:
        """How busy the pool is now."""
        stats = self._pool.get_stats()
        size, free = stats.get("pool_size", 0), stats.get("pool_available", 0)
        return Use(size - free, free, stats.get("requests_waiting", 0))

    @asynccontextmanager
    async def look(self, whose: str | None = None) -> AsyncIterator[Tx]:
        """A connection without a transaction: each statement is one trip and stands for itself."""
        async with self._connection(whose) as connection:
            yield Tx(connection)

    @asynccontextmanager
    async def tx(self, whose: str | None = None, *, few_trips: bool = False) -> AsyncIterator[Tx]:
        """A transaction. Raises RuntimeError when one is already open in this task.

        With `few_trips`, BEGIN goes with the first statement, and what was sent by `Tx.send` goes with COMMIT: for
        transactions that everybody waits for all day.
        """
        forbid_in_transaction("a second transaction")
        with tracing.span("transaction"):
            async with self._connection(whose) as connection, _transaction(connection, few_trips) as tx:
                mark = _inside.set(True)
                try:
                    yield tx
                finally:
                    _inside.reset(mark)

    @asynccontextmanager
    async def _connection(self, whose: str | None) -> AsyncIterator[AsyncConnection[Any]]:
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(self._patience):
                    if whose is not None:
                        await held.enter_async_context(self._turn(whose))
                    connection = await held.enter_async_context(self._pool.connection())
            except (TimeoutError, PoolTimeout) as error:
                raise Busy(f"no connection to the database became free in {self._patience:g} s") from error
            yield connection

    @asynccontextmanager
    async def _turn(self, whose: str) -> AsyncIterator[None]:
        turns, here = self._turns.get(whose) or (asyncio.Semaphore(self._share), 0)
        self._turns[whose] = (turns, here + 1)
        try:
            async with turns:
                yield
        finally:
            here = self._turns[whose][1] - 1
            if here:
                self._turns[whose] = (turns, here)
            else:
                del self._turns[whose]


@asynccontextmanager
async def _transaction(connection: AsyncConnection[Any], few_trips: bool) -> AsyncIterator[Tx]:
    if not few_trips:
        async with connection.transaction():
            yield Tx(connection)
        return
    # Not connection.transaction(), which inside a pipeline waits after BEGIN and before COMMIT.
    async with connection.pipeline() as pipeline, AsyncTransaction(connection):
        try:
            yield Tx(connection, pipeline)
        except BaseException:
            # After a failure the server passes over all that comes before the next sync, a ROLLBACK too.
            with suppress(Error):
                await pipeline.sync()
            raise
