"""A transaction of few trips is a transaction like any other: whole or not at all, and its connection stays good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from psycopg import errors

from keel.db import Database, Tx
from keel.testing.plugin import FreshDatabase


@pytest.fixture
async def db(database: FreshDatabase) -> AsyncIterator[Database]:
    async with Database(database.owner, size=1) as db:
        async with db.tx() as tx:
            await tx.run("CREATE TABLE marks (n int PRIMARY KEY)")
        yield db


async def marks(db: Database) -> list[int]:
    async with db.tx(few_trips=True) as tx:
        return [row["n"] for row in await tx.rows("SELECT n FROM marks ORDER BY n")]


async def add(tx: Tx, n: int) -> None:
    await tx.send("INSERT INTO marks VALUES (%(n)s)", {"n": n})


async def test_what_was_sent_is_there_after_the_commit(db: Database) -> None:
    async with db.tx(few_trips=True) as tx:
        await add(tx, 1)
        await add(tx, 2)
        assert await tx.row("SELECT count(*) AS n FROM marks") == {"n": 2}
        await add(tx, 3)
    assert await marks(db) == [1, 2, 3]


async def adding(db: Database, *numbers: int, then: str = "", fail: bool = False) -> None:
    """A transaction that adds numbers, waits for a statement, and may end in an exception of its own."""
    async with db.tx(few_trips=True) as tx:
        for n in numbers:
            await add(tx, n)
        if then:
            await tx.row(then)
        if fail:
            raise KeyError("ours")


async def test_a_statement_that_fails_on_its_way_to_the_commit_fails_the_transaction(db: Database) -> None:
    with pytest.raises(errors.UniqueViolation):
        await adding(db, 1, 1, 2)
    assert await marks(db) == []


async def test_a_statement_that_fails_is_told_by_the_next_that_is_waited_for(db: Database) -> None:
    with pytest.raises(errors.UniqueViolation):
        await adding(db, 1, 1, then="SELECT 1 AS one")
    with pytest.raises(errors.DivisionByZero):
        await adding(db, 1, then="SELECT 1 / 0 AS none")
    assert await marks(db) == []


async def test_an_exception_of_the_block_undoes_it(db: Database) -> None:
    with pytest.raises(KeyError):
        await adding(db, 1, fail=True)
    with pytest.raises(KeyError):
        await adding(db, 1, then="SELECT 1 AS one", fail=True)
    assert await marks(db) == []


async def test_what_a_statement_changed_is_known_where_it_is_asked(db: Database) -> None:
    async with db.tx(few_trips=True) as tx:
        await tx.many("INSERT INTO marks VALUES (%(n)s)", [{"n": 1}, {"n": 2}])
        assert await tx.run("UPDATE marks SET n = n + 10") == 2
        assert await tx.run("DELETE FROM marks WHERE n = 5") == 0
    assert await marks(db) == [11, 12]


async def test_a_block_that_is_cancelled_leaves_nothing_behind(db: Database) -> None:
    reached = asyncio.Event()

    async def work() -> None:
        async with db.tx(few_trips=True) as tx:
            await add(tx, 1)
            await tx.row("SELECT 1 AS one")
            reached.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(work())
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await marks(db) == []


async def test_a_statement_that_is_cancelled_leaves_nothing_behind(db: Database) -> None:
    reached = asyncio.Event()

    async def work() -> None:
        async with db.tx(few_trips=True) as tx:
            await add(tx, 1)
            reached.set()
            await tx.row("SELECT 1 AS one FROM pg_sleep(30)")

    running = asyncio.create_task(work())
    await reached.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await marks(db) == []


async def test_a_second_transaction_is_refused_inside(db: Database) -> None:
    async with db.tx(few_trips=True) as tx:
        await add(tx, 1)
        with pytest.raises(RuntimeError):
            async with db.tx(few_trips=True):
                pass
    assert await marks(db) == [1]
