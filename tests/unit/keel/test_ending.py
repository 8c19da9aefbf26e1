"""What runs for long ends when it is told to, also where the first telling was lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from keel import ending
from keel.ending import end


async def waits() -> None:
    await asyncio.Event().wait()


async def test_what_is_cancelled_ends_and_nothing_is_raised() -> None:
    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    await end(task)
    assert task.cancelled()


async def test_a_cancellation_that_was_lost_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "AGAIN_SECONDS", 0.01)
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        for _ in range(3):
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            lost += 1
        await asyncio.Event().wait()

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await end(task)
    assert (lost, task.cancelled()) == (3, True)


async def test_what_it_died_of_is_raised_whenever_it_died() -> None:
    async def dies(later: bool) -> None:
        if later:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        raise LookupError

    for later in (False, True):
        task = asyncio.create_task(dies(later))
        await asyncio.sleep(0)
        with pytest.raises(LookupError):
            await end(task)
    await end(None)
