"""How what runs for long comes to its end: by a signal, or by a fault of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress


async def end(task: asyncio.Task[None] | None) -> None:
    """Cancel it, and raise what it died of by itself."""
    if task is None:
        return
    if task.done():
        task.result()
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def on_signals(stop: Callable[[], None]) -> None:
    """Call `stop` at the first SIGINT or SIGTERM; a second one ends the process as if nobody listened."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

    def heard() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)
        stop()

    for number in numbers:
        loop.add_signal_handler(number, heard)
