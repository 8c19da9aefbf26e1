"""An Onbe for each test, with fakes at its edges and a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keel import ledger
from keel.db import Database
from keel.ledger.seal import seal
from keel.postgres import SUPERUSER
from keel.testing import FakeClock, FakeIds
from keel.testing.plugin import Cluster, FreshDatabase
from onbe.deps import Deps
from onbe.drivers.signing.fake import FakeSigning
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.migrations import in_schema
from onbe.records import actions
from onbe.settings import AdminSettings, OnbeSettings

KEY = "k" * 40


class NoKeys:
    """Nobody's keys: nothing here verifies a signature."""

    async def at(self, uri: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        return []

    async def of_issuer(self, issuer: str, kid: str | None) -> Sequence[Mapping[str, Any]]:
        return []


@dataclass(frozen=True)
class House:
    """An Onbe with its clock, and ways to write into its ledger and past it."""

    deps: Deps
    clock: FakeClock
    owner: str
    """The database's address for the role that owns it."""
    superuser: str

    async def record(
        self, sponsor: str | None = "ada", agent: str | None = "planner", task: str | None = "task_1",
        outcome: str = "ok", action: str = "token.refresh", facts: Mapping[str, object] | None = None,
    ) -> None:  # fmt: skip
        """A record of a second later."""
        self.clock.advance(1)
        async with self.deps.db.tx() as tx:
            await ledger.append(
                tx,
                ledger.Record(self.clock.now(), sponsor, agent, action, task, None, outcome, 1.5, facts or {}),
            )

    async def seal(self, rows_most: int = 1000) -> int:
        return await seal(self.deps.db, actions.keys_of(self.deps), self.clock, rows_most=rows_most)

    def attack(self, *statements: str) -> None:
        """Do what only somebody with the whole database in their hands can, past every trigger and key."""
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                connection.execute(statement.encode())


Build = Callable[..., Any]


@pytest.fixture
def build(onbe_database: FreshDatabase, onbe_cluster: Cluster, tmp_path: Path, clock: FakeClock) -> Build:
    """Makes an Onbe over this test's database; with other settings where asked."""

    @asynccontextmanager
    async def made(settings: OnbeSettings | None = None, **more: Any) -> AsyncIterator[House]:
        chosen = settings or OnbeSettings(admin=AdminSettings(keys=(KEY,)))
        async with Database(onbe_database.runtime) as db:
            deps = Deps(
                clock=clock, ids=FakeIds(more.pop("seed", "")), db=db, signing=FakeSigning(chosen.issuer),
                keys=NoKeys(), sponsors=FakeSponsors(clock), settings=chosen, data=tmp_path, **more,
            )  # fmt: skip
            superuser = onbe_cluster.postgres.url(SUPERUSER, onbe_database.name)
            yield House(deps, clock, onbe_database.owner, in_schema(superuser))

    return made


@pytest.fixture
async def house(build: Build) -> AsyncIterator[House]:
    """An Onbe whose ledger is empty."""
    async with build() as made:
        await actions.have_months(made.deps)
        made.clock.advance(timedelta(hours=1))
        yield made
