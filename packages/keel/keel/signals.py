"""Waiting for a topic: LISTEN/NOTIFY shared by every waiter of a process.

A waiter subscribes, looks at the database, and waits; a notification only says "look again", so a lost one costs
no more than the waiter's own timeout. Topics are short texts such as `box:b-…`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import structlog
from psycopg import AsyncConnection, OperationalError

from keel.db import CHANNEL

log = structlog.get_logger()

RECONNECT_SECONDS = 0.5
LOOK_AGAIN_SECONDS = 5.0
"""How long a waiter trusts silence: the listening connection may have been away."""
PULSE_SECONDS = 3.0
"""How often the listening connection shows that it is there, while it says nothing."""


class Subscription:
    """One waiter's interest in some topics. Made by `Signals.on`."""

    def __init__(self, *, closing: bool = False, sure: Callable[[], bool] = lambda: False) -> None:
        self._event = asyncio.Event()
        self._sure = sure
        self.closing = closing
        """Set when the process is about to end: answer with what there is, and wait no more."""

    def close(self) -> None:
        """Say that there is no time left to wait."""
        self.closing = True
        self._event.set()

    def wake(self) -> None:
        """Say that something happened."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Whether a topic was notified since the last call; False after `seconds` (at most `LOOK_AGAIN_SECONDS`)."""
        notified, _ = await self.wait_surely(seconds)
        return notified

    async def wait_surely(self, seconds: float) -> tuple[bool, bool]:
        """As `wait`; and whether it is certain, where nothing was notified, that nothing happened."""
        if seconds > 0 and not self.closing:
            try:
                await asyncio.wait_for(self._event.wait(), min(seconds, LOOK_AGAIN_SECONDS))
            except TimeoutError:
                return False, self._sure()
        notified = self._event.is_set()
        self._event.clear()
        return notified, notified or self._sure()


class Signals:
    """The process's one listening connection, and who waits for what."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._waiters: dict[str, set[Subscription]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._closing = False
        self._listening = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._listen(), name="signals")
        await self._ready.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def listening(self) -> bool:
        """Whether the listening connection is there; without it waiters look again by the clock."""
        return self._listening

    @property
    def closing(self) -> bool:
        """Whether the process is about to end."""
        return self._closing

    @contextmanager
    def on(self, *topics: str) -> Iterator[Subscription]:
        """Subscribe to topics for the length of the block."""
        subscription = Subscription(closing=self._closing, sure=lambda: self._listening)
        for topic in topics:
            self._waiters[topic].add(subscription)
        try:
            yield subscription
        finally:
            for topic in topics:
                self._waiters[topic].discard(subscription)
                if not self._waiters[topic]:
                    del self._waiters[topic]

    def close(self) -> None:
        """End every wait, and those still to come: the process is about to end."""
        self._closing = True
        for waiters in tuple(self._waiters.values()):
            for waiter in tuple(waiters):
                waiter.close()

    async def _listen(self) -> None:
        away = False
        while True:
            try:
                async with await AsyncConnection.connect(self._url, autocommit=True) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}".encode())
                    away, self._listening = False, True
                    self._wake_all()  # what happened while we were away
                    self._ready.set()
                    while True:
                        async for notification in connection.notifies(timeout=PULSE_SECONDS):
                            for waiter in tuple(self._waiters.get(notification.payload, ())):
                                waiter.wake()
                        async with asyncio.timeout(PULSE_SECONDS):
                            await connection.execute("SELECT 1")  # what was notified meanwhile comes with the next
            except (OperationalError, TimeoutError) as error:
                self._listening = False
                if not away:  # once for each time that it goes away
                    log.warning("signals.reconnecting", error=str(error).strip())
                away = True
                await asyncio.sleep(RECONNECT_SECONDS)

    def _wake_all(self) -> None:
        for waiters in tuple(self._waiters.values()):
            for waiter in tuple(waiters):
                waiter.wake()
