"""Sealing: each row once, whatever ran at the same time, in one chain, whoever makes it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege, RaiseException
from tests.unit.keel.ledger.chain import Chain, chain

from keel.ledger import append, store
from keel.ledger.keys import KeyTrouble
from keel.ledger.seal import settle
from keel.ledger.store import Writers
from keel.postgres import SUPERUSER
from keel.testing import FakeClock
from keel.testing.plugin import Cluster, FreshDatabase

INSERT = """
    INSERT INTO ledger (at, action, outcome, duration_us, arguments)
    VALUES ('2026-01-02T03:04:05Z', 'x', 'ok', 1, '{}')
"""


def writers(upto: int, *holders: str) -> Writers:
    return Writers(upto, frozenset(holders))


@pytest.mark.parametrize(
    ("settled", "before", "now", "said"),
    [
        # Nobody writes: whatever was given out is there or will never be.
        (0, None, writers(0), (0, None)),
        (3, None, writers(9), (9, None)),
        (3, writers(7, "a"), writers(9), (9, None)),
        # Somebody does: who they are is kept, and nothing is said.
        (3, None, writers(9, "a"), (3, writers(9, "a"))),
        # Some of those that were waited for are still there: they alone are waited for.
        (3, writers(7, "a", "b"), writers(9, "b", "c"), (3, writers(7, "b"))),
        # All of them are gone: what they may have held is there; the ones of now are waited for next.
        (3, writers(7, "a", "b"), writers(9, "c"), (7, writers(9, "c"))),
        # A restored database gives out lower numbers than it had settled.
        (8, writers(7, "a"), writers(5, "c"), (8, writers(5, "c"))),
        (8, None, writers(5), (8, None)),
    ],
)
def test_what_is_settled_follows_from_who_writes(
    settled: int, before: Writers | None, now: Writers, said: tuple[int, Writers | None]
) -> None:
    assert settle(settled, before, now) == said


async def test_nothing_to_seal_makes_no_checkpoint(empty: Chain) -> None:
    assert await empty.seal() == 0
    assert await empty.all_checkpoints() == []
    await empty.add(1)
    assert await empty.seal() == 1
    assert await empty.seal() == 0
    assert len(await empty.all_checkpoints()) == 1


async def test_each_checkpoint_names_the_one_before_and_covers_what_came_since(sealed: Chain) -> None:
    found = [signed.checkpoint for signed in await sealed.all_checkpoints()]
    assert [(one.number, one.first, one.last) for one in found] == [(1, 1, 7), (2, 8, 14), (3, 15, 21), (4, 22, 23)]
    assert [one.previous for one in found] == [None, *(one.hash for one in found[:-1])]
    assert [one.settled for one in found] == [7, 14, 21, 23]
    assert sealed.keys.seen() == (4, found[-1].hash)


async def test_a_long_transaction_holds_up_no_other_and_is_sealed_when_it_ends(empty: Chain) -> None:
    async with await AsyncConnection.connect(empty.db.url) as slow:
        await slow.execute(INSERT)  # seq 1
        await empty.add(3)
        assert await empty.seal() == 3
        assert (await empty.all_checkpoints())[-1].checkpoint.settled == 0
        assert (await empty.verify()).intact
        await slow.commit()
        assert await empty.seal() == 1
    async with empty.db.look() as tx:
        assert [seq for _, seq, _ in await store.leaves(tx, 1, 9)] == [2, 3, 4, 1]
    assert (await empty.all_checkpoints())[-1].checkpoint.settled == 4
    assert (await empty.verify()).intact


async def test_the_search_goes_on_though_somebody_always_writes(empty: Chain) -> None:
    """Writers overlap without a gap: what is settled follows all the same, so that the search stays short."""
    before = await AsyncConnection.connect(empty.db.url)
    await before.execute(INSERT)
    for _ in range(6):
        after = await AsyncConnection.connect(empty.db.url)
        await after.execute(INSERT)
        await before.commit()
        await before.close()
        before = after
        await empty.seal()
    await before.close()
    assert (await empty.all_checkpoints())[-1].checkpoint.settled >= 5
    assert (await empty.verify()).intact


class Interleaving:
    """Some connections that write, each in a transaction or not, and the sealing between them."""

    def __init__(self, made: Chain) -> None:
        self.made = made
        self.connections: dict[int, AsyncConnection] = {}

    async def step(self, what: str, who: int) -> None:
        if what == "seal":
            await self.made.seal((1, 2, 5, 1000)[who])
            return
        connection = self.connections.get(who)
        if connection is None:
            connection = self.connections[who] = await AsyncConnection.connect(self.made.db.url)
        match what:
            case "insert":
                await connection.execute(INSERT)
            case "take":  # a number that is never used
                await connection.execute("SELECT nextval('ledger_seq')")
            case "savepoint":
                await connection.execute("SAVEPOINT inner_part")
                await connection.execute(INSERT)
                await connection.execute("ROLLBACK TO inner_part")
            case "commit":
                await connection.commit()
            case "abort":
                await connection.rollback()
            case "die":
                await connection.close()
                del self.connections[who]

    async def end(self) -> None:
        for who, connection in self.connections.items():
            await (connection.commit() if who % 2 else connection.rollback())
            await connection.close()


STEPS = ("insert", "insert", "insert", "take", "savepoint", "commit", "commit", "abort", "die", "seal", "seal")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=40))
def test_whatever_runs_at_the_same_time_each_row_is_sealed_once(
    database: FreshDatabase, cluster: Cluster, tmp_path: Path, steps: list[tuple[str, int]]
) -> None:
    async def run() -> None:
        superuser = cluster.postgres.url(SUPERUSER, database.name)
        async with chain(database, superuser, tmp_path, FakeClock()) as made:
            story = Interleaving(made)
            try:
                for what, who in steps:
                    await story.step(what, who)
            finally:
                await story.end()
            await made.seal()
            report = await made.verify()
            assert report.problems == []
            assert report.unsealed == 0
            async with made.db.look() as tx:
                rows = await tx.rows("SELECT seq FROM ledger ORDER BY seq")
                leaves = await tx.rows("SELECT seq FROM ledger_leaves ORDER BY seq")
            assert rows == leaves

    asyncio.run(run())


async def test_many_sealers_and_writers_at_once_make_one_chain_with_every_row(empty: Chain) -> None:
    done = asyncio.Event()

    async def write(number: int) -> None:
        async with await AsyncConnection.connect(empty.db.url) as connection:
            for turn in range(40):
                for _ in range(1 + (turn + number) % 3):
                    await connection.execute(INSERT)
                await (connection.rollback() if turn % 5 == number else connection.commit())

    async def seal() -> None:
        while not done.is_set():
            await empty.seal(10)

    sealers = [asyncio.create_task(seal()) for _ in range(3)]
    await asyncio.gather(*(write(number) for number in range(6)))
    done.set()
    await asyncio.gather(*sealers)
    await empty.seal()
    report = await empty.verify()
    assert report.problems == []
    async with empty.db.look() as tx:
        rows = await tx.row("SELECT count(*) AS n FROM ledger")
    assert rows == {"n": report.records}
    assert report.records > 350


async def test_the_runtime_role_adds_and_reads_and_the_owner_is_stopped_by_the_trigger(
    sealed: Chain, database: FreshDatabase
) -> None:
    tables = ("ledger", "ledger_leaves", "ledger_keys", "ledger_checkpoints")
    with (
        psycopg.connect(database.runtime, autocommit=True) as runtime,
        psycopg.connect(database.owner, autocommit=True) as owner,
    ):
        for table in tables:
            column = {"ledger": "action", "ledger_leaves": "seq", "ledger_keys": "id"}.get(table, "number")
            for statement in (
                f"UPDATE {table} SET {column} = {column}",
                f"DELETE FROM {table}",
                f"TRUNCATE {table} CASCADE",
            ):
                with pytest.raises(InsufficientPrivilege):
                    runtime.execute(statement.encode())
                with pytest.raises(RaiseException, match="append-only"):
                    owner.execute(statement.encode())
    assert (await sealed.verify()).intact


async def test_a_key_that_cannot_be_used_seals_nothing_and_loses_nothing(sealed: Chain) -> None:
    path = sealed.keys.folder / "key.pem"
    path.chmod(0o644)
    await sealed.add(2)
    with pytest.raises(KeyTrouble):
        await sealed.seal()
    assert (await sealed.verify()).unsealed == 2
    path.chmod(0o600)
    assert await sealed.seal() == 2
    assert (await sealed.verify()).intact


async def test_a_row_that_commits_while_the_rows_are_read_is_not_lost(empty: Chain) -> None:
    """Between the look at the writers and the look at the rows a writer ends: its row is sealed now or later."""
    async with await AsyncConnection.connect(empty.db.url) as writer:
        await writer.execute(INSERT)
        async with empty.db.tx() as tx:
            seen = await store.writers(tx)
            assert len(seen.holders) == 1
            await writer.commit()
            assert [row.seq for row in await store.unsealed(tx, 0, 10)] == [1]
            assert (await store.writers(tx)).holders == frozenset()
    async with empty.db.tx() as tx:
        await append(tx, empty.record())
        assert (await store.writers(tx)).holders == frozenset()  # oneself is not waited for
