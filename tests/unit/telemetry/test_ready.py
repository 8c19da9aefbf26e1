"""Ready is who holds every check; and numbers that are read once for all who ask."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from keel.cached import Cached
from keel.testing import FakeClock
from rift.commands.decide import outcome
from rift.commands.model import End
from rift.health.decide import WAITING_MOST, WORKER_WITHIN, Facts, decide_ready

GOOD = Facts(step="7", wanted_step="7", listening=True, worker_age=1.0, waiting=0, stopping=False)


def test_a_process_that_holds_every_check_is_ready() -> None:
    assert all(decide_ready(GOOD).values())


@pytest.mark.parametrize(
    ("check", "facts"),
    [
        ("database", replace(GOOD, step=None)),
        ("database", replace(GOOD, step="6")),
        ("database", replace(GOOD, step="8")),
        ("signals", replace(GOOD, listening=False)),
        ("worker", replace(GOOD, worker_age=None)),
        ("worker", replace(GOOD, worker_age=WORKER_WITHIN + 0.1)),
        ("room", replace(GOOD, waiting=WAITING_MOST)),
        ("serving", replace(GOOD, stopping=True)),
    ],
)
def test_one_check_that_fails_is_named_and_is_enough(check: str, facts: Facts) -> None:
    assert [name for name, holds in decide_ready(facts).items() if not holds] == [check]


async def test_any_number_who_ask_at_once_cost_one_reading_and_again_after_its_time(clock: FakeClock) -> None:
    read, go = 0, asyncio.Event()

    async def reading() -> int:
        nonlocal read
        read += 1
        await go.wait()
        return read

    cached = Cached(clock, reading, seconds=1.0)
    asking = [asyncio.create_task(cached.get()) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()  # one hangs up; the others are answered all the same
    go.set()
    assert await asyncio.gather(*asking[1:]) == [1] * 49
    assert await cached.get() == 1
    clock.advance(1.5)
    assert await cached.get() == 2


async def test_a_reading_that_failed_is_tried_again_by_the_next_who_asks(clock: FakeClock) -> None:
    tries = 0

    async def reading() -> str:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError("away")
        return "back"

    cached = Cached(clock, reading)
    with pytest.raises(ConnectionError):
        await cached.get()
    assert await cached.get() == "back"


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (End(1, 0, None, 0, b""), "ok"),
        (End(1, 3, None, 0, b""), "failed"),
        (End(1, 143, "timeout: stopped after 3 s", 0, b""), "timeout"),
        (End(1, 143, "stopped by rift_stop", 0, b""), "stopped"),
        (End(1, 137, "killed by signal 9 (KILL)", 0, b""), "killed"),
        (End(1, None, "the jail ended: <anything the box says>", 0, b""), "no_exit"),
        (End(1, None, None, 0, b"", ran=False), "unrun"),
    ],
)
def test_an_end_is_counted_under_a_word_of_ours_whatever_its_reason_says(end: End, word: str) -> None:
    assert outcome(end) == word
