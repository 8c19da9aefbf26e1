"""What the tests of coverage stand in: an account, what it covers there, and the rows that are here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.behaviour.github.hub import Hub
from tests.behaviour.repos.hub import connected
from tests.unit.people.house import act

from keel.refusal import Refusal
from rift.coverage import actions
from rift.coverage.model import Covered
from rift.drivers.forge.fake import FakeForge
from rift.drivers.github.protocol import Installation, Repository
from rift.origins import actions as origins
from rift.repos.model import Watched

LOGIN = "acme-inc"
HEAD = "a" * 40


@dataclass
class Covering:
    """One account at GitHub and here."""

    hub: Hub
    org: str
    there: Installation

    @property
    def forge(self) -> FakeForge:
        assert isinstance(self.hub.deps.forge, FakeForge)
        return self.hub.deps.forge

    def covers(self, *names: str) -> list[Repository]:
        """The App covers these, too; each has a branch."""
        made = [self.hub.github.cover(self.there.id, name) for name in names]
        for one in made:
            self.forge.repositories[address(one)] = {"main": HEAD}
        return made

    def becomes(self, one: Repository, **changes: Any) -> Repository:
        """A repository is another at GitHub."""
        listed = self.hub.github.covered[self.there.id]
        now = replace(one, **changes)
        listed[listed.index(one)] = now
        self.forge.repositories[address(now)] = self.forge.repositories.get(address(one), {"main": HEAD})
        return now

    def drops(self, one: Repository) -> None:
        """The App covers it no more."""
        self.hub.github.covered[self.there.id].remove(one)

    async def cover(self) -> Covered | None:
        return await actions.cover(self.hub.deps, self.there.id)

    async def watch(self, name: str, ref: str = "main") -> Watched | Refusal:
        return await origins.watch(self.hub.deps, act(self.hub.ada, "rift_watch"), name, ref)

    async def rows(self) -> dict[int, dict[str, Any]]:
        """The repositories' rows by GitHub's id."""
        found = await self.hub.rows(
            """
            SELECT github_id, id, org, account, owner || '/' || name AS full, url, archived, default_branch,
                   uncovered_at IS NULL AS covered
            FROM repos WHERE forge = 'github' ORDER BY github_id
            """
        )
        return {row["github_id"]: row for row in found}

    async def names(self) -> list[str]:
        """The full names of what is covered."""
        return sorted(row["full"] for row in (await self.rows()).values() if row["covered"])

    async def jobs(self) -> list[tuple[str, dict[str, Any]]]:
        """The jobs that wait and are about repositories."""
        return [job for job in await self.hub.jobs() if job[0].startswith(("coverage.", "origins."))]

    async def account(self) -> dict[str, Any]:
        """The account's row."""
        (row,) = await self.hub.rows(f"SELECT * FROM github_accounts WHERE installation = {self.there.id}")
        return row


def address(one: Repository) -> str:
    """Where a repository is read."""
    return f"https://github.com/{one.owner}/{one.name}.git"


async def covering(hub: Hub) -> Covering:
    """The account, connected and enabled."""
    there = hub.github.install(LOGIN, "Organization", "ada")
    (org,) = await hub.rows("SELECT id FROM orgs WHERE name = 'acme'")
    await connected(hub.deps, org["id"], there.id, LOGIN, there.account.id)
    return Covering(hub, org["id"], there)
