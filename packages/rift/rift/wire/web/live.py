"""Pages that go on: an answer of server-sent events (WHATWG HTML, 9.2), each the newest text of a part of a page.

A browser opens one again by itself when it ends, and says which text it had last. So an end costs nothing: the server
stops, the database goes away, and a moment later the page is live again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from keel.db import Busy, OperationalError
from keel.signals import Signals

log = structlog.get_logger()

MOST = 4
"""How many pages of one person are live at once in one process; a page in a tab that nobody sees is not."""
MOST_OF_ALL = 512
"""And of everybody."""
LOOK_SECONDS = 5.0
"""So often it is looked whether the session goes on."""
SHOW_SECONDS = 30.0
"""So often the text is made anew though nothing was notified: it tells how long ago things were."""
REST_SECONDS = 0.5
"""A text is made no oftener than this, whatever happens."""
RETRY_MS = 2000
"""When a browser opens the events again."""


@dataclass(slots=True)
class Places:
    """How many live pages each person has."""

    taken: Counter[str] = field(default_factory=Counter)

    def full(self, user: str) -> bool:
        """Whether there is none left for a person."""
        return self.taken[user] >= MOST or self.taken.total() >= MOST_OF_ALL

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        """Have a place for the length of the block."""
        self.taken[user] += 1
        try:
            yield
        finally:
            self.taken[user] -= 1
            if not self.taken[user]:
                del self.taken[user]


class Events(Response):
    """An answer that goes on until `events` ends, or the browser goes. Has one of the person's places meanwhile."""

    media_type = "text/event-stream"

    def __init__(self, places: Places, user: str, events: AsyncGenerator[str], headers: dict[str, str]) -> None:
        super().__init__(None, 200, {**headers, "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._places, self._user, self._events = places, user, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what there is, and stop when nobody hears it."""
        with self._places.one(self._user):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            telling = asyncio.create_task(self._tell(send), name="events")
            going = asyncio.create_task(_gone(receive), name="events: the browser")
            try:
                await asyncio.wait([telling, going], return_when=asyncio.FIRST_COMPLETED)
            finally:
                going.cancel()
                telling.cancel()
                await asyncio.gather(telling, going, return_exceptions=True)
        if telling.cancelled():
            return
        if error := telling.exception():
            raise error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, send: Send) -> None:
        try:
            async with aclosing(self._events) as events:
                async for event in events:
                    await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        except (OperationalError, Busy) as error:  # the browser asks again, and is told what is the matter
            log.info("events.ended", reason=str(error).strip())


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


Shown = tuple[str, Collection[str]]
"""A part of a page as it is now, and the topics whose notification may make it another."""


async def events(
    signals: Signals,
    goes_on: Callable[[], Awaitable[bool]],
    show: Callable[[], Awaitable[Shown]],
    had: str,
) -> AsyncGenerator[str]:
    """The events of one page: `shown` with its text whenever that is another, `over` when the session is.

    `had` is the id of the text that the browser has already. Between them, every few seconds, a line that says nothing,
    by which a browser that is gone is found out.
    """
    yield f"retry: {RETRY_MS}\n\n"
    topics: Collection[str] = ()
    while await goes_on():
        with signals.on(*topics) as signal:
            text, wanted = await show()
            id = hashlib.sha256(text.encode()).hexdigest()[:16]
            if id != had:
                yield _event("shown", text, id)
                had = id
            if set(wanted) != set(topics):
                topics = tuple(wanted)
                continue  # what happened before they were listened to is seen by looking again
            quiet = 0.0
            while quiet < SHOW_SECONDS:
                notified, sure = await signal.wait_surely(LOOK_SECONDS)
                if signal.closing:
                    return
                if notified or not sure or not await goes_on():
                    break
                quiet += LOOK_SECONDS
                yield ": still here\n\n"
        await asyncio.sleep(REST_SECONDS)
    yield _event("over", "", "")


def _event(name: str, text: str, id: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{f'id: {id}' if id else 'data'}\n{lines}\n"
