"""Requests and switches that meet: each is stopped at a chosen place, by the directory of people or by a lock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import httpx2
import psycopg
from tests.behaviour.onbe.ends.asking import administrator, revoke
from tests.behaviour.onbe.world import World

from keel.testing import eventually
from keel.testing.plugin import FreshDatabase
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.drivers.sponsors.protocol import Answer

DEEP = {"max_delegation_depth": 5}
Act = Callable[[], Coroutine[Any, Any, httpx2.Response]]


@dataclass
class Gate:
    """A directory of people whose answers can be held back: they are given, and do not arrive until it is opened."""

    sponsors: FakeSponsors
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    def __post_init__(self) -> None:
        self.opened.set()

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        answer = await self.sponsors.ask(sponsor, no_older_than)
        self.waiting += 1
        await self.opened.wait()
        self.waiting -= 1
        return answer


@asynccontextmanager
async def locked(database: FreshDatabase, sql: LiteralString) -> AsyncIterator[psycopg.AsyncConnection]:
    """Hold what a statement of the owner's locks, until the block ends; in a transaction that may do more."""
    async with await psycopg.AsyncConnection.connect(database.owner) as connection:
        await connection.execute(sql)
        yield connection


async def blocked(world: World, count: int) -> None:
    """Until that many connections wait for a lock."""

    async def waits() -> bool:
        (found,) = await world.rows(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(found["n"] == count)

    await eventually(waits)


@dataclass
class Scene:
    """An agent with a task, and another to whom it may be delegated."""

    world: World
    given: dict[str, Any]

    def request(self, kind: str) -> Act:
        """Something that would give a token for the person of the scene."""
        return {
            "exchange": lambda: self.world.exchange("scribe"),
            "refresh": lambda: self.world.refresh("scribe", self.given["refresh_token"]),
            "delegation": lambda: self.world.delegate("helper", self.given["access_token"]),
        }[kind]

    def switch(self, kind: str) -> Act:
        """Something that ends tasks."""
        world, task = self.world, self.given["task_id"]
        return {
            "block": lambda: administrator(world, "PUT", "/admin/sponsors/ada/block", json={"reason": "gone"}),
            "kill person": lambda: administrator(world, "DELETE", "/admin/sponsors/ada/tasks"),
            "kill agent": lambda: administrator(world, "DELETE", "/admin/agents/scribe/tasks"),
            "kill sub-agent": lambda: administrator(world, "DELETE", "/admin/agents/helper/tasks"),
            "kill task": lambda: administrator(world, "DELETE", f"/admin/tasks/{task}"),
            "revoke": lambda: revoke(world, "scribe", self.given["refresh_token"]),
        }[kind]


async def scene(world: World) -> Scene:
    """Two agents, a tool server, one task."""
    for agent in ("scribe", "helper", "tool"):
        await world.register(agent, **DEEP)
    return Scene(world, await world.begin("scribe"))


REACHES = [
    (request, switch)
    for request, switches in {
        "exchange": ("block", "kill person", "kill agent"),
        "refresh": ("block", "kill person", "kill agent", "kill task", "revoke"),
        "delegation": ("block", "kill person", "kill agent", "kill sub-agent", "kill task", "revoke"),
    }.items()
    for switch in switches
]
"""What may meet: a request, and a switch that reaches what it would give."""
