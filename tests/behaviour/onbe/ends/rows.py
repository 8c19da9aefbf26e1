"""Agents, people and tasks as bare rows, and an Onbe that has a database and a clock: enough to end things."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from keel.db import Database
from keel.ids import digest
from keel.testing import FakeClock, FakeIds, eventually
from onbe.deps import Deps
from onbe.settings import OnbeSettings

START = FakeClock().now()


class Absent:
    """A driver that nothing here may ask."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


@dataclass
class Rows:
    """One database, and what stands in it."""

    db: Database
    clock: FakeClock
    numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def deps(self) -> Deps:
        absent: Any = Absent()
        return Deps(self.clock, FakeIds(), self.db, absent, absent, absent, OnbeSettings(), Path("/nowhere"))

    async def run(self, sql: LiteralString, **values: object) -> None:
        async with self.db.tx() as tx:
            await tx.run(sql, values)

    async def rows(self, sql: LiteralString, **values: object) -> list[dict[str, Any]]:
        async with self.db.look() as tx:
            return await tx.rows(sql, values)

    async def agent(self, name: str) -> str:
        await self.run(
            """
            INSERT INTO agents (agent_id, display_name, allowed_scopes, allowed_audiences, max_delegation_depth,
                                high_risk_audiences, jwks, enabled, created_at, updated_at)
            VALUES (%(name)s, %(name)s, '{read}', '{https://tool.example}', 5, '{}', '{"keys": []}', true, now(), now())
            ON CONFLICT DO NOTHING
            """,
            name=name,
        )
        return name

    async def task(
        self, agent: str = "scribe", sponsor: str = "ada", *, parent: str | None = None, life: float = 1800,
        renewals: int = 0, depth: int = 1,
    ) -> str:  # fmt: skip
        """A task that began now and has `life` seconds."""
        await self.agent(agent)
        await self.run("INSERT INTO sponsors (key) VALUES (%(key)s) ON CONFLICT DO NOTHING", key=sponsor)
        number = next(self.numbers)
        id, now = f"task_{number:026}", self.clock.now()
        await self.run(
            """
            INSERT INTO tasks (id, agent, sponsor, audience, scope, created_at, expires_at, parent, depth, chain,
                               grant_sha256, renewals)
            VALUES (%(id)s, %(agent)s, %(sponsor)s, 'https://tool.example', '{read}', %(now)s, %(until)s, %(parent)s,
                    %(depth)s, ARRAY[%(agent)s], %(grant)s, %(renewals)s)
            """,
            id=id, agent=agent, sponsor=sponsor, now=now, until=now + timedelta(seconds=life), parent=parent,
            depth=depth, grant=digest(f"grant of {id}"), renewals=renewals,
        )  # fmt: skip
        return id

    async def ends(self) -> dict[str, tuple[str | None, str | None]]:
        """How each task ended, and why."""
        rows = await self.rows('SELECT id, "end", end_reason FROM tasks ORDER BY id')
        return {row["id"]: (row["end"], row["end_reason"]) for row in rows}

    async def records(self, *actions: str) -> list[Mapping[str, Any]]:
        """The ledger's rows, those of some actions where any are named, in their order."""
        rows = await self.rows("SELECT * FROM ledger ORDER BY seq")
        return [row for row in rows if not actions or row["action"] in actions]

    @asynccontextmanager
    async def holding(self, sql: LiteralString, **values: object) -> AsyncIterator[None]:
        """A transaction of somebody else's that has done one statement, and commits at the end of the block."""
        async with await psycopg.AsyncConnection.connect(self.db.url) as connection:
            await connection.execute(sql, values)
            yield

    async def waiting(self, count: int) -> None:
        """Until that many connections wait for a lock."""

        async def waits() -> bool:
            (found,) = await self.rows(
                "SELECT count(*) AS n FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return bool(found["n"] == count)

        await eventually(waits)

    def at(self, seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)


async def many(rows: Rows, count: int, *, agent: str = "scribe", sponsor: str = "ada", life: float = 10) -> None:
    """Tasks of one agent, for one person, that all end at one instant; the renewals of each are its number."""
    await rows.agent(agent)
    await rows.run("INSERT INTO sponsors (key) VALUES (%(key)s) ON CONFLICT DO NOTHING", key=sponsor)
    await rows.run(
        """
        INSERT INTO tasks (id, agent, sponsor, audience, scope, created_at, expires_at, depth, chain, grant_sha256,
                           renewals)
        SELECT 'task_' || %(sponsor)s || lpad(n::text, 20, '0'), %(agent)s, %(sponsor)s, 'https://tool.example',
               '{read}', %(now)s, %(until)s, 1, ARRAY[%(agent)s], sha256((%(sponsor)s || n)::bytea), n
        FROM generate_series(1, %(count)s) n
        """,
        agent=agent, sponsor=sponsor, now=rows.clock.now(), until=rows.clock.now() + timedelta(seconds=life),
        count=count,
    )  # fmt: skip
