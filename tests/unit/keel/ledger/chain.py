"""A ledger to seal, to attack and to check: real database, keys of its own, a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from keel.db import Database
from keel.ledger import Record, append, store
from keel.ledger.checkpoint import Signed
from keel.ledger.faults import Report
from keel.ledger.keys import KeyFolder, PublicKey
from keel.ledger.seal import seal
from keel.ledger.verify import verify
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase

RECORDS = 23
"""How many records a fresh chain has: four checkpoints of 7, 7, 7 and 2."""


@dataclass(frozen=True)
class Chain:
    """A ledger with what seals it."""

    db: Database
    keys: KeyFolder
    clock: FakeClock
    superuser: str
    """The database's address for who may do anything."""
    owner: str
    """The same for the role that owns it."""

    async def add(self, count: int, *, text: str | None = None) -> None:
        """Append records, each in a transaction of its own."""
        for _ in range(count):
            self.clock.advance(1)
            async with self.db.tx() as tx:
                await append(tx, self.record(text))

    def record(self, text: str | None = None) -> Record:
        return Record(
            self.clock.now(), "user_ada", "mcp:Claude", "rift_bash", "task_1", "b-1", "ok", 5.125, {"vm": "b-1"},
            text, "5a17",
        )  # fmt: skip

    async def seal(self, rows_most: int = 1000) -> int:
        return await seal(self.db, self.keys, self.clock, rows_most=rows_most)

    async def verify(
        self, *, against: Signed | None = None, since: int = 1, trusted: Mapping[str, PublicKey] | None = None,
        archives: Sequence[Path] = (), kept: Mapping[int, bytes] | None = None,
    ) -> Report:  # fmt: skip
        return await verify(
            self.db, self.keys.public() if trusted is None else trusted, self.clock.now(),
            seen=self.keys.seen(), against=against, since=since, archives=archives, kept=kept,
        )  # fmt: skip

    def attack(self, *statements: str, **params: Any) -> None:
        """Do what only somebody with the whole database in their hands can, past every trigger and key."""
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                connection.execute(statement.encode(), params)

    async def all_checkpoints(self) -> list[Signed]:
        async with self.db.look() as tx:
            return await store.checkpoints(tx, 0, 1000)


@asynccontextmanager
async def chain(database: FreshDatabase, superuser: str, folder: Path, clock: FakeClock) -> AsyncIterator[Chain]:
    """An empty ledger."""
    async with Database(database.runtime) as db:
        yield Chain(db, KeyFolder(folder / "audit"), clock, superuser, database.owner)


async def filled(made: Chain) -> None:
    """Give it records with texts, sealed in four checkpoints."""
    await made.add(RECORDS, text="make test")
    assert await made.seal(7) == RECORDS
    assert (await made.verify()).intact
    made.clock.advance(timedelta(minutes=1))
