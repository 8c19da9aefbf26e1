"""Turns at the database, and silence that can be trusted: against a real Postgres."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from keel.db import Busy, Database
from keel.signals import Signals
from keel.testing.plugin import Cluster, FreshDatabase
from keel.testing.waiting import eventually


async def test_one_has_a_share_of_the_connections_and_the_rest_is_everybody_elses(database: FreshDatabase) -> None:
    async with Database(database.runtime, size=3, share=2) as db:
        inside: list[str] = []
        end = asyncio.Event()

        async def work(whose: str) -> None:
            async with db.tx(whose):
                inside.append(whose)
                await end.wait()

        crowd = [asyncio.create_task(work("crowd")) for _ in range(10)]
        await eventually(lambda: inside == ["crowd", "crowd"])
        other = asyncio.create_task(work("other"))
        await eventually(lambda: inside == ["crowd", "crowd", "other"])
        end.set()
        await asyncio.gather(*crowd, other)
        assert len(inside) == 11
        assert db._turns == {}


async def test_who_finds_no_connection_in_time_is_told_that_it_is_busy(database: FreshDatabase) -> None:
    async with Database(database.runtime, size=1, share=1, patience=0.1) as db:
        async with db.tx("one"):
            for whose in ("one", "two", None):
                with pytest.raises(Busy):
                    async with asyncio.timeout(20), db.look(whose):
                        raise AssertionError("it had none")
        async with db.tx("one"), asyncio.timeout(20):
            pass
        assert db._turns == {}


async def test_a_block_that_runs_out_of_its_own_time_is_not_told_to_be_busy(database: FreshDatabase) -> None:
    async with Database(database.runtime) as db:
        with pytest.raises(TimeoutError):
            async with db.tx("one"):
                raise TimeoutError("its own")


async def test_silence_is_certain_while_the_listening_connection_is_there(database: FreshDatabase) -> None:
    async with Signals(database.runtime) as signals:
        with signals.on("topic") as heard:
            assert await heard.wait_surely(0.01) == (False, True)
            with psycopg.connect(database.owner, autocommit=True) as connection:
                connection.execute("SELECT pg_notify('keel', 'topic')")
                assert await heard.wait_surely(20) == (True, True)
            assert await heard.wait_surely(0.01) == (False, True)


async def test_a_lost_connection_wakes_who_waits_and_makes_silence_uncertain_until_it_is_back(
    database: FreshDatabase, cluster: Cluster
) -> None:
    async with Signals(database.runtime) as signals:
        connection = cluster.admin
        with signals.on("topic") as heard:
            connection.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false".encode())  # it stays away
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                [database.name],
            )

            async def uncertain() -> bool:
                return await heard.wait_surely(0.01) == (False, False)

            await eventually(uncertain)
            connection.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS true".encode())
            assert await heard.wait_surely(20) == (True, True)  # what happened meanwhile may be looked at
