"""What a browser is shown where there is no page, where Rift failed, and where it cannot at this moment.

Programs are answered as they were: these are pages for whoever asks for a page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from keel.db import Busy, OperationalError
from keel.web.observed import exchange_of
from rift.audit import NotBegun
from rift.wire.observed import on_fault
from rift.wire.web import refusals
from rift.wire.web.site import Door
from rift.wire.web.visit import Site, headers

AGAIN_SECONDS = "5"
"""When a browser that could not be answered may ask again."""

Handler = Callable[[Request, Exception], Awaitable[Response]]


def wants_page(scope: Scope) -> bool:
    """Whether whoever asks would rather have a page than anything else: a browser that goes somewhere says so."""
    return "text/html" in Headers(scope=scope).get("accept", "")


class Errors:
    """The pages of what went wrong. Those of faults ask the database for nothing: it may be what failed."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._door = Door(site)

    @property
    def handlers(self) -> Mapping[Any, Handler]:
        """For `Starlette(exception_handlers=…)`."""
        return {HTTPException: self.missing, Exception: self.fault}

    async def missing(self, request: Request, error: Exception) -> Response:
        """Nothing is at this address, or nothing that is asked for so."""
        assert isinstance(error, HTTPException)  # by the table above
        if not wants_page(request.scope) or error.status_code not in (404, 405):
            return PlainTextResponse(error.detail, error.status_code, headers=error.headers)
        response = await self._door.refuse(request, refusals.no_such_page())
        if response.status_code == 404:
            response.status_code = error.status_code
            response.headers.update(error.headers or {})
        return response

    async def fault(self, request: Request, error: Exception) -> Response:
        """We failed, or the database is away."""
        if not wants_page(request.scope):
            return on_fault(request, error)
        away = isinstance(error, (OperationalError, Busy, NotBegun))
        exchange = exchange_of(request.scope)
        return self.page(503 if away else 500, "away" if away else "fault", exchange.id if exchange else "")

    def page(self, status: int, what: str, id: str = "") -> Response:
        """A page that knows nobody. `what`: fault, away, full."""
        html = self._site.templates.get_template("fault.html").render(
            viewer=None, csrf="", notice="", path="", now=self._site.deps.clock.now(), what=what, id=id
        )
        more = {"Retry-After": AGAIN_SECONDS} if status == 503 else {}
        return HTMLResponse(html, status, headers={**headers(self._site), **more})

    def full(self, otherwise: ASGIApp) -> ASGIApp:
        """The answer on a connection that is one too many: a page for a browser, for others what they are told."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if not wants_page(scope):
                await otherwise(scope, receive, send)
                return
            page = self.page(503, "full")
            page.headers["Connection"] = "close"
            await page(scope, receive, send)

        return answer
