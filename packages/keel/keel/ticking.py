"""Background work without a queue: functions that are called every so often, each for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

log = structlog.get_logger()

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Tick(Generic[Value]):
    """One thing that is done every `seconds`, counted from the end of the last time."""

    name: str
    seconds: float
    act: Callable[[Value], Awaitable[object]]


async def tick_on(
    ticks: Sequence[Tick[Value]], value: Value, count: Callable[[str, str], None] = lambda name, outcome: None
) -> None:
    """Do each of them, at once and then at its times, until cancelled.

    What one of them raises is logged, and neither ends it nor the others. `count` is told its name and `ok` or
    `failed`.
    """
    if not ticks:
        await asyncio.Event().wait()
    async with asyncio.TaskGroup() as group:
        for tick in ticks:
            group.create_task(_repeat(tick, value, count), name=tick.name)


@asynccontextmanager
async def beside(tick: Tick[Value], value: Value) -> AsyncIterator[None]:
    """For the length of a block do this at its times, the first of them after `seconds`: as going on to hold something.

    What it raises is logged, and ends neither it nor the block.
    """

    async def later() -> None:
        await asyncio.sleep(tick.seconds)
        await _repeat(tick, value, lambda name, outcome: None)

    task = asyncio.create_task(later(), name=tick.name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _repeat(tick: Tick[Value], value: Value, count: Callable[[str, str], None]) -> None:
    while True:
        try:
            await tick.act(value)
        except Exception:
            log.exception("tick.failed", work=tick.name)
            count(tick.name, "failed")
        else:
            count(tick.name, "ok")
        await asyncio.sleep(tick.seconds)
