"""Jobs of a worker that died in the middle of them or ended by itself, on a real database."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from procrastinate import App

from keel.db import Database
from keel.jobs import Jobs, defer
from keel.testing import eventually
from keel.testing.plugin import FreshDatabase


@asynccontextmanager
async def working(url: str, ran: list[str]) -> AsyncIterator[None]:
    """A worker that notes what it ran."""
    jobs: Jobs[object] = Jobs(url)

    async def run(deps: object, what: str) -> None:
        ran.append(what)

    jobs.on("note", run)
    task = asyncio.create_task(jobs.work(object()))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("waiting", [False, True])
async def test_what_a_dead_worker_was_doing_is_done_once_whether_or_not_the_next_one_waits(
    database: FreshDatabase, waiting: bool
) -> None:
    """The dead one's job holds the lock that the waiting one needs, and the waiting one the name that it would need."""
    ran: list[str] = []
    async with Database(database.runtime) as db:
        async with db.tx() as tx:
            assert await defer(tx, "note", lock="box", once="start", what="x")
            await tx.run("UPDATE procrastinate_jobs SET status = 'doing'")  # by a worker that was forgotten since
            if waiting:
                assert await defer(tx, "note", lock="box", once="start", what="x")
            assert await defer(tx, "note", lock="box", once="destroy", what="y")
        async with working(database.runtime, ran):
            await eventually(lambda: sorted(ran) == ["x", "y"], within=20)

            async def nothing_left() -> bool:
                async with db.look() as tx:
                    return await tx.rows("SELECT FROM procrastinate_jobs") == []

            await eventually(nothing_left, within=10)
    assert sorted(ran) == ["x", "y"]


async def test_a_worker_that_ended_by_itself_begins_again(
    database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's worker ends so, without an error, when it cannot listen any more and all else still answers."""
    ran: list[str] = []
    ended = False
    real = App.run_worker_async

    async def ends_once(app: App, **options: Any) -> None:
        nonlocal ended
        if ended:
            await real(app, **options)
        ended = True

    monkeypatch.setattr(App, "run_worker_async", ends_once)
    async with Database(database.runtime) as db, working(database.runtime, ran):
        async with db.tx() as tx:
            await defer(tx, "note", what="after")
        await eventually(lambda: ran == ["after"], within=20)


HANGS = """
import asyncio, sys
from keel.jobs import Jobs

async def note(deps, what):
    if what == sys.argv[2]:
        print("begun", flush=True)
        await asyncio.Event().wait()

jobs = Jobs(sys.argv[1])
jobs.on("note", note)
asyncio.run(jobs.work(object()))
"""


@asynccontextmanager
async def hanging(db: Database, what: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, in the middle of a job that does not end there."""
    path = os.pathsep.join(sys.path)
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HANGS, db.url, what), env={**os.environ, "PYTHONPATH": path}, stdout=-1
    )
    assert worker.stdout
    begun = asyncio.create_task(worker.stdout.readline())
    try:
        while not begun.done():  # another worker, which does not hang in it, may have been quicker
            async with db.tx() as tx:
                await defer(tx, "note", what=what, lock=what, once=what)
            await asyncio.wait([begun], timeout=0.2)
        assert begun.result() == b"begun\n"
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()


async def test_what_a_killed_worker_was_doing_is_done_at_once_and_what_a_living_one_does_is_left_to_it(
    database: FreshDatabase,
) -> None:
    """Long before the silence is over by which a worker on a lost machine is known to be dead."""
    ran: list[str] = []
    async with Database(database.runtime) as db, hanging(db, "kept"), hanging(db, "killed") as killed:
        killed.kill()
        await killed.wait()

        async def doing() -> set[str]:
            async with db.look() as tx:
                rows = await tx.rows("SELECT args ->> 'what' AS what FROM procrastinate_jobs WHERE status = 'doing'")
            return {row["what"] for row in rows}

        async with working(database.runtime, ran):

            async def only_kept() -> bool:
                return await doing() == {"kept"}

            await eventually(only_kept, within=10)
    assert "kept" not in ran
