"""What one source may ask, and how much is done at once: before a request costs anything.

Too many from one source in a minute: 429 with `slow_down` and Retry-After. More work of a kind than can be done and may
wait: 503 with `temporarily_unavailable`, within a second, and nothing was done. Each kind has a queue of its own, so
that a crowd at one endpoint leaves the others to everybody else.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Literal

import structlog
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keel.buckets import Buckets, Rate
from keel.clock import Clock
from keel.refusal import Refusal, Retry
from keel.web.sources import networks, source
from onbe import meters
from onbe.names import BODY_BYTES
from onbe.settings import OnbeSettings
from onbe.wire.refusals import database_away, oauth_error, overloaded, problem, rate_limited

Kind = Literal["token", "introspect", "revoke", "admin", "discovery"]

FREE = ("/healthz", "/readyz", "/metrics")
"""Asked by machines that watch: a probe that is turned away would end a server that is only busy."""
FORMS: Mapping[str, Kind] = {"/oauth2/token": "token", "/oauth2/introspect": "introspect", "/oauth2/revoke": "revoke"}
SHARE: Mapping[Kind, float] = {"token": 1.0, "introspect": 0.5, "revoke": 0.25, "admin": 0.25, "discovery": 0.5}
"""How much of each kind is done at once, of Onbe:Limits:AtOnce."""
DEADLINE_SECONDS = 10.0
"""How long a request may be worked on beside the wait for the directory of people: a database that hangs never says so.

Whoever hears 503 then was granted nothing; what was to be ended may be ended all the same.
"""
ADMIN_SECONDS = 50.0
"""So much longer an administrator may wait, who ends thousands of tasks at once."""
QUIET_SECONDS = 60.0
"""How often it is said at most that requests are turned away."""

log = structlog.get_logger("onbe.limits")


class Limits:
    """Both of them before an application."""

    def __init__(
        self, app: ASGIApp, settings: OnbeSettings, clock: Clock, *, deadline: float = DEADLINE_SECONDS
    ) -> None:
        self._deadline = deadline + settings.sponsor_check.timeout.total_seconds()
        limits = settings.limits
        self._app, self._clock = app, clock
        self._trusted = networks(settings.server.trusted_proxies)
        self._buckets = Buckets(Rate(limits.per_source, 60.0))
        patience = limits.patience.total_seconds()
        self._desks = {
            kind: Desk(max(1, int(limits.at_once * share)), limits.waiting, patience) for kind, share in SHARE.items()
        }
        self._said: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path in FREE:
            await self._app(scope, receive, send)
            return
        kind = kind_of(path)
        wait = self._wait(scope)
        if wait > 0:
            meters.TURNED_AWAY.labels(kind, "rate_limited").inc()
            self._say("rate_limited", kind)
            seconds = math.ceil(wait)
            await answer(kind, rate_limited(Retry(seconds), seconds=seconds))(scope, receive, send)
            return
        if path in FORMS:  # read first: one that sends slowly holds nobody's place
            read = await _read(receive)
            if read is None:
                return  # nobody is there to hear what would be said
            receive = read
        begun, limit = False, asyncio.timeout(self._deadline + (ADMIN_SECONDS if kind == "admin" else 0))

        async def tell(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            async with self._desks[kind].place(), limit:
                await self._app(scope, receive, tell)
        except TimeoutError:
            if begun or not limit.expired():
                raise
            meters.TURNED_AWAY.labels(kind, "database_away").inc()
            self._say("database_away", kind)
            await answer(kind, database_away(Retry(5)))(scope, receive, send)
        except Full:
            meters.TURNED_AWAY.labels(kind, "overloaded").inc()
            self._say("overloaded", kind)
            await answer(kind, overloaded(Retry(1)))(scope, receive, send)

    def _wait(self, scope: Scope) -> float:
        who = source(scope, self._trusted)
        return 0.0 if who is None else self._buckets.take(who, self._clock.monotonic())

    def _say(self, what: str, kind: Kind) -> None:
        """Once a minute, and no address: the numbers tell how many."""
        now = self._clock.monotonic()
        if now - self._said.get(what, -math.inf) >= QUIET_SECONDS:
            self._said[what] = now
            log.warning("limits.turned_away", why=what, kind=kind)


class Full(Exception):
    """There is no place, and none became free in time: nothing was done."""


class Desk:
    """So many places, and so many who wait for one, each for so many seconds at most. First come, first served."""

    def __init__(self, places: int, waiting: int, patience: float) -> None:
        self._places = asyncio.Semaphore(places)
        self._most = waiting
        self._patience = patience
        self._waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Have a place for the length of the block. Raises Full."""
        if self._places.locked():
            if self._waiting >= self._most:
                raise Full
            self._waiting += 1
            try:
                async with asyncio.timeout(self._patience):
                    await self._places.acquire()
            except TimeoutError:
                raise Full from None
            finally:
                self._waiting -= 1
        else:
            await self._places.acquire()
        try:
            yield
        finally:
            self._places.release()


def kind_of(path: str) -> Kind:
    """Which work a path asks for."""
    if path in FORMS:
        return FORMS[path]
    return "admin" if path.startswith(("/admin", "/audit")) else "discovery"


def answer(kind: Kind, refusal: Refusal) -> Response:
    """As the endpoint itself would refuse: an OAuth error, or a problem document."""
    if kind == "admin":
        status, headers, document = problem(refusal)
        return JSONResponse(document, status, headers, "application/problem+json")
    status, headers, body = oauth_error(refusal)
    return JSONResponse(body, status, headers)


async def _read(receive: Receive) -> Receive | None:
    """Read a body as far as any may be, to be read again: `receive` for whoever is behind. None where the client went
    away before its end: a fault of theirs, and not a traceback in our log for each who hangs up.
    """
    held: list[Message] = []
    size, more = 0, True
    while more and size <= BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        held.append(message)
        size += len(message.get("body", b""))
        more = message.get("more_body", False)

    async def again() -> Message:
        return held.pop(0) if held else await receive()

    return again
