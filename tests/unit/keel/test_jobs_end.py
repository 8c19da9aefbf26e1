"""Background work that is told to end while its database is away."""

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
