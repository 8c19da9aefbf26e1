"""Many calls that wait, and many that do not: each is answered, none holds a connection, and nobody sees a fault."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.applications import Starlette
from tests.unit.people.house import act, caller, house, outcomes, user
from tests.wire.clients import Raw, Reply
from tests.wire.serving import served
from tests.wire.whole import Whole, whole_rift

from keel.clock import SystemClock
from keel.db import Database
from keel.ids import SystemIds
from keel.testing import FakeClock
from keel.testing.plugin import Cluster, FreshDatabase
from keel.testing.waiting import eventually
from rift import audit
from rift.deps import Deps
from rift.people import actions as people
from rift.wire.mcp.guard import Guard, mcp_routes
from rift.wire.mcp.registry import Registry
from rift.wire.mcp.server import McpServer
from rift.wire.mcp.tools import TOOLS

WAITS = 200
POOL = 12


@pytest.fixture
async def rift(database: FreshDatabase, tmp_path: Path) -> AsyncIterator[Whole]:
    async with whole_rift(database, tmp_path) as whole:
        yield whole


def said(reply: Reply) -> str:
    assert reply.status == 200, reply
    return "\n".join(block["text"] for block in reply.result["content"])


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return match[0]


def code(reply: Reply) -> str:
    refused: dict[str, Any] = reply.result["_meta"].get("rift/refusal", {})
    return str(refused.get("code", "ok"))


def used(cluster: Cluster, database: FreshDatabase) -> int:
    """How many connections have the database at work, or wait in it for a lock, or hold a transaction, now."""
    row = cluster.admin.execute(  # as the superuser: others do not see what somebody else's connection does
        "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend' "
        "AND state <> 'idle'",
        [database.name],
    ).fetchone()
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


async def a_box(raw: Raw) -> tuple[str, str]:
    """A task's handle, and a running box of it."""
    await raw.call("rift_watch", {"repo": "acme/app", "ref": "main", "warm": 0})
    task = found(r"task_\w{8}\.[\w-]+", said(await raw.call("rift_task_new", {"name": "crowd"})))
    new = said(await raw.call("rift_vm_new", {"task": task, "repo": "acme/app", "ref": "main"}))
    return task, found(r"b-[0-9a-f]{24}", new)


async def test_two_hundred_calls_that_wait_are_all_answered_when_their_command_ends_and_hold_no_connection(
    rift: Whole, cluster: Cluster, database: FreshDatabase
) -> None:
    raw = Raw(rift.url, rift.token)
    task, box = await a_box(raw)
    ids = []
    for name in ("one", "two"):
        command = {"task": task, "vm": box, "command": f"sleep-until-released {name}", "timeout": 60, "block_for": 0}
        ids.append(found(r"b-[0-9a-f]{24}\.\d+", said(await raw.call("rift_bash", command))))

    def wait(id: str) -> asyncio.Task[Reply]:
        arguments = {"task": task, "commands": [{"id": id, "offset": 0}], "block_for": 45}
        return asyncio.create_task(raw.call("rift_output", arguments))

    waits = [[wait(id) for _ in range(WAITS // 2)] for id in ids]

    async def parked() -> bool:
        async with rift.deps.db.tx() as tx:
            row = await tx.row("SELECT count(*) AS n FROM ledger WHERE action = 'rift_output'")
        return row is not None and row["n"] == WAITS

    await eventually(parked, within=60)
    await eventually(lambda: used(cluster, database) == 0)
    assert not any(one.done() for one in waits[0] + waits[1])
    assert "acme/app" in said(await raw.call("rift_whoami", {}))  # others are served meanwhile
    rift.boxes.release(box, "one")
    first = await asyncio.gather(*waits[0])
    assert all("finished" in said(reply) for reply in first)
    assert not any(one.done() for one in waits[1])
    rift.boxes.release(box, "two")
    assert all("finished" in said(reply) for reply in await asyncio.gather(*waits[1]))


async def test_of_two_hundred_short_calls_at_once_none_is_told_of_a_fault(rift: Whole) -> None:
    raw = Raw(rift.url, rift.token)
    replies = await asyncio.gather(*(raw.call("rift_task_ls", {}) for _ in range(WAITS)))
    assert {code(reply) for reply in replies} == {"ok"}


async def test_what_crowds_on_one_persons_task_leaves_connections_to_everybody_else(
    rift: Whole, cluster: Cluster, database: FreshDatabase
) -> None:
    raw = Raw(rift.url, rift.token)
    task = found(r"task_\w{8}\.[\w-]+", said(await raw.call("rift_task_new", {"name": "crowd"})))
    await people.add_user(rift.deps, "bob@example.org", admin=False)
    made = await people.new_token(rift.deps, "bob@example.org", "Cursor")
    assert isinstance(made, tuple)
    with psycopg.connect(database.owner) as slow:  # as a call that takes its time would
        lock = "SELECT id FROM tasks WHERE id = %s FOR UPDATE"
        await asyncio.to_thread(slow.execute, lock, [task.partition(".")[0]])  # it may wait for a call in this loop
        crowd = [asyncio.create_task(raw.call("rift_vm_ls", {"task": task})) for _ in range(4 * POOL)]
        await eventually(lambda: used(cluster, database) > 1)
        assert code(await Raw(rift.url, made[1]).call("rift_task_ls", {})) == "ok"
        assert used(cluster, database) < POOL
    assert {code(reply) for reply in await asyncio.gather(*crowd)} == {"ok"}


@asynccontextmanager
async def taken(db: Database) -> AsyncIterator[None]:
    """While the block lasts, somebody else has the pool's only connection."""
    there, end = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with db.tx():
            there.set()
            await end.wait()

    holding = asyncio.create_task(hold())
    await there.wait()
    try:
        yield
    finally:
        end.set()
        await holding


async def whose(deps: Deps) -> str:
    await user(deps, "ada@example.org", admin=True)
    made = await people.new_token(deps, "ada@example.org", "Claude")
    assert isinstance(made, tuple)
    return made[1]


async def test_a_call_that_finds_no_connection_in_time_did_nothing_and_says_when_to_come_back(
    database: FreshDatabase, tmp_path: Path
) -> None:
    async with (
        house(database, tmp_path, FakeClock()) as calm,
        Database(database.runtime, size=1, patience=0.2) as tight,
    ):
        deps = replace(calm, clock=SystemClock(), ids=SystemIds(), db=tight)
        token = await whose(calm)
        ada = await caller(calm, "ada@example.org")
        server = McpServer(
            Registry(TOOLS), deps, clock=deps.clock, ids=deps.ids,
            refused=lambda act, refusal: audit.refuse(deps, act, refusal),
        )  # fmt: skip
        guard = Guard(
            server,
            authenticate=lambda secret: people.authenticate(calm, secret),
            metadata_url="https://rift.example/.well-known/oauth-protected-resource/mcp",
        )
        async with served(Starlette(routes=mcp_routes(guard), lifespan=lambda _: server.run())) as url:
            raw = Raw(f"{url}/mcp", token)
            async with taken(tight):
                reply = await raw.call("rift_task_new", {"name": "x"})
                assert code(reply) == "overloaded"
                assert "rift_task_new was not begun, and nothing was done" in said(reply)
                assert "again in 5 seconds" in said(reply)
                with pytest.raises(audit.NotBegun):
                    async with audit.audited(replace(deps), act(ada)):
                        raise AssertionError("it began")
            assert not [one for one in await outcomes(calm) if one[2] == "rift_task_new"]
            assert code(await raw.call("rift_task_new", {"name": "x"})) == "ok"


async def test_a_door_that_cannot_check_tokens_in_time_says_when_to_come_back(
    database: FreshDatabase, tmp_path: Path
) -> None:
    async with (
        house(database, tmp_path, FakeClock()) as calm,
        Database(database.runtime, size=1, patience=0.2) as tight,
    ):
        token = await whose(calm)
        guard = Guard(
            Starlette(),
            authenticate=lambda secret: people.authenticate(replace(calm, db=tight), secret),
            metadata_url="https://rift.example/.well-known/oauth-protected-resource/mcp",
        )
        async with served(Starlette(routes=mcp_routes(guard))) as url, taken(tight):
            reply = await Raw(f"{url}/mcp", token).call("rift_whoami", {})
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
