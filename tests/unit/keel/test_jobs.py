"""Jobs of a worker that died in the middle of them or ended by itself, on a real database."""

from __future__ import annotations

import asyncio
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
