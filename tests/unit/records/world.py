"""Records of two teams and their people, written straight into the database, for tests of who reads what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import LiteralString

from tests.unit.people.house import user

from keel.ledger import Record, append
from rift.deps import Deps
from rift.people.model import Caller, User
from rift.records import actions
from rift.records.model import Asked, Shown


def signed_in(person: User) -> Caller:
    """Somebody at a page."""
    return Caller(person.id, person.email, person.admin, "ses_1", "", "web")


class World:
    """People by their name, teams by theirs; whatever is made here is there at once."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps
        self.people: dict[str, User] = {}
        self.at: datetime = deps.clock.now()

    async def person(self, name: str, *, admin: bool = False) -> User:
        self.people[name] = await user(self.deps, f"{name}@example.org", admin=admin)
        return self.people[name]

    async def team(self, name: str, **roles: str) -> str:
        await self.run(
            "INSERT INTO orgs (id, name, created_at) VALUES (%(id)s, %(id)s, %(at)s) ON CONFLICT DO NOTHING", id=name
        )
        await self.run(
            "INSERT INTO repos (id, org, owner, name, url, created_at)"
            " VALUES (%(id)s, %(org)s, %(org)s, 'app', 'https://example.org/x.git', %(at)s) ON CONFLICT DO NOTHING",
            id=f"repo_{name}", org=name,
        )  # fmt: skip
        for person, role in roles.items():
            await self.role(name, person, role)
        return name

    async def role(self, team: str, person: str, role: str | None) -> None:
        """Give a role, or take somebody out."""
        who = {"org": team, "user": self.people[person].id}
        await self.run("DELETE FROM members WHERE org = %(org)s AND user_id = %(user)s", **who)
        if role is not None:
            await self.run(
                "INSERT INTO members (org, user_id, role) VALUES (%(org)s, %(user)s, %(role)s)", **who, role=role
            )

    async def task(self, id: str, owner: str) -> str:
        await self.run(
            "INSERT INTO tasks (id, owner, name, status, activity_at, created_at)"
            " VALUES (%(id)s, %(owner)s, %(name)s, 'open', %(at)s, %(at)s)",
            id=id, owner=self.people[owner].id, name=f"the task {id}",
        )  # fmt: skip
        return id

    async def box(self, id: str, team: str, task: str | None = None, name: str | None = None) -> str:
        await self.run(
            "INSERT INTO boxes (id, name, number, repo, ref, commit, task, state, used_at, created_at)"
            " VALUES (%(id)s, %(name)s, (SELECT count(*) + 1 FROM boxes), %(repo)s, 'main', 'c', %(task)s, 'running',"
            " %(at)s, %(at)s)",
            id=id, name=name or f"app-main-{id}", repo=f"repo_{team}", task=task,
        )  # fmt: skip
        return id

    async def record(
        self, action: str, actor: str | None = None, *, task: str | None = None, box: str | None = None,
        outcome: str = "ok", via: str = "mcp:Claude", text: str | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> int:  # fmt: skip
        """One record, a second after the last one: its number."""
        self.at += timedelta(seconds=1)
        who = self.people[actor].id if actor else None
        async with self.deps.db.tx() as tx:
            await append(
                tx, Record(self.at, who, via, action, task, box, outcome, 5.0, arguments or {}, text, "salt")
            )  # fmt: skip
            row = await tx.row("SELECT currval('ledger_seq') AS seq")
            assert row is not None
            return int(row["seq"])

    async def sees(self, person: str, **asked: object) -> list[str]:
        """The actions of the records that a person's page shows, the newest first."""
        page = await self.page(person, **asked)  # type: ignore[arg-type]  # as asked
        return [entry.action for entry in page.entries]

    async def page(self, person: str, *, whose: str | None = None, **asked: object) -> Shown:
        who = signed_in(self.people[person])
        return await actions.page_of(self.deps, who, Asked(**asked), person=whose)  # type: ignore[arg-type]  # as asked

    async def reads(self, person: str, seq: int) -> bool:
        """Whether a record's page is there for a person."""
        return await actions.one_of(self.deps, signed_in(self.people[person]), seq) is not None

    async def run(self, sql: LiteralString, **params: object) -> None:
        async with self.deps.db.tx() as tx:
            await tx.run(sql, {"at": self.at, **params})
