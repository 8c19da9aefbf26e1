"""Background work whose database goes away, and which is told to end at that moment."""

from __future__ import annotations

import asyncio

import pytest
from psycopg import OperationalError

from keel.jobs import Jobs


class Losing(Jobs[None]):
    """Work whose database goes away at the moment in which it is told to end."""

    def __init__(self) -> None:
        super().__init__("postgresql:///nowhere")
        self.began = asyncio.Event()

    async def _work(self, at_once: int) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ExceptionGroup("work", [OperationalError("the connection is lost")]) from None


async def test_work_ends_when_it_is_told_to_though_the_database_goes_away_at_that_moment() -> None:
    losing = Losing()
    work = asyncio.create_task(losing.work(None))
    await losing.began.wait()
    losing.began.clear()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(work, 10)
    assert not losing.began.is_set()


class Failing(Jobs[None]):
    """Work of which a part fails for want of the database, the first time."""

    def __init__(self) -> None:
        super().__init__("postgresql:///nowhere")
        self.again = asyncio.Event()
        self.failed = False

    async def _work(self, at_once: int) -> None:
        if self.failed:
            self.again.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._part())
            await asyncio.sleep(0)

    async def _part(self) -> None:
        if self.failed:
            await asyncio.Event().wait()
        self.failed = True
        raise OperationalError("the connection is lost")


async def test_work_begins_again_when_the_database_was_away_and_nobody_told_it_to_end() -> None:
    failing = Failing()
    work = asyncio.create_task(failing.work(None))
    await asyncio.wait_for(failing.again.wait(), 20)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
