"""A system for each test, with a repository of a team: Ada is its admin, Bob a member, Eve is nobody there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.people.house import caller, house, user

from keel.refusal import Refusal
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.drivers.forge.fake import FakeForge
from rift.origins import actions as origins
from rift.people.model import Caller
from rift.repos.model import Repo

URL = "https://example.org/acme/app.git"


@dataclass(frozen=True)
class Team:
    """Who is there, and the repository."""

    deps: Deps
    repo: Repo
    ada: Caller
    bob: Caller
    eve: Caller


@pytest.fixture
async def team(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Team]:
    """The team and its repository."""
    forge = FakeForge()
    forge.repositories[URL] = {"main": "a" * 40}
    async with house(database, tmp_path, clock, forge) as deps:
        people = [await user(deps, f"{name}@example.org", admin=name == "ada") for name in ("ada", "bob", "eve")]
        repo = await origins.add_repo(deps, "ada@example.org", "acme/app", URL)
        assert not isinstance(repo, Refusal)
        async with deps.db.tx() as tx:
            await tx.run(
                "INSERT INTO members (org, user_id, role) VALUES (%(org)s, %(bob)s, 'member')",
                {"org": repo.org, "bob": people[1].id},
            )
        ada, bob, eve = [await caller(deps, one.email) for one in people]
        yield Team(deps, repo, ada, bob, eve)
