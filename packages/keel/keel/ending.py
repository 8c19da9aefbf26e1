"""How what runs for long comes to its end: by a signal, or by a fault of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

AGAIN_SECONDS = 1.0
"""After so long, what was cancelled and has not ended is cancelled once more."""


async def end(task: asyncio.Task[None] | None) -> None:
    """Cancel it until it has ended, and raise what it died of by itself.

    Once may not be enough: before Python 3.12 `asyncio.wait_for`, which the database's driver stands on, loses a
    cancellation that comes in the moment in which what it waits for is there.
    """
    if task is None:
        return
    if task.done():
        task.result()
        return
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_SECONDS)
    with suppress(asyncio.CancelledError):
        task.result()


def on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGINT or SIGTERM; a second one ends the process as if nobody listened."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

    def heard() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        stop()

    for number in numbers:
        loop.add_signal_handler(number, heard)
