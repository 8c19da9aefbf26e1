"""A worker and a mail server, both real: what is posted arrives, also where the server hangs on other letters."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tests.conformance.post.offices import serving
from tests.unit.people.house import house

from keel.clock import SystemClock
from keel.jobs import Jobs, defer
from keel.testing import FakeClock, eventually
from keel.testing.plugin import FreshDatabase
from rift.deps import Deps
from rift.drivers.post.smtp import SmtpPost
from rift.mail import actions, jobs


async def test_letters_arrive_and_a_server_that_hangs_holds_up_no_other_work(
    database: FreshDatabase, tmp_path: Path
) -> None:
    done: list[int] = []

    async def other(deps: Deps, n: int) -> None:
        done.append(n)

    async with (
        serving(tmp_path, "none") as kit,
        house(
            database, tmp_path, FakeClock(SystemClock().now()), post=SmtpPost(replace(kit.config, seconds=20.0))
        ) as deps,
    ):
        worker: Jobs[Deps] = Jobs(database.runtime)
        jobs.register(worker)
        worker.on("other", other)
        kit.office.stuck = asyncio.Event()
        async with deps.db.tx() as tx:
            for n in range(20):
                await actions.post(tx, deps, "trial", f"person-{n}@example.com", {})
        working = asyncio.create_task(worker.work(deps))
        try:
            await eventually(lambda: kit.office.waiting)
            async with deps.db.tx() as tx:
                for n in range(20):
                    await defer(tx, "other", n=n)
            await eventually(lambda: len(done) == 20)
            assert kit.office.waiting <= 2
            assert kit.arrived() == []
            kit.office.stuck.set()
            await eventually(lambda: len(kit.arrived()) == 20)
            assert {str(got["To"]) for got in kit.arrived()} == {f"person-{n}@example.com" for n in range(20)}
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        assert {one.state for one in (await actions.list_letters(deps)).letters} == {"sent"}
