"""The door before the admin API: the bearer key, then how much is sent and how slowly. Only then is anything read.

Without a configured key nobody is let in (503). A wrong key, or none, is 401 (RFC 6750, 3) and goes on the record.
"""

from __future__ import annotations

import asyncio

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keel.db import Busy, OperationalError
from keel.ids import digest, same_digest
from keel.refusal import Stop
from onbe.deps import Deps
from onbe.directory.actions import admin_denied
from onbe.names import BODY_BYTES
from onbe.wire import refusals
from onbe.wire.admin import answers

BODY_SECONDS = 15.0
"""How long a whole body may take."""
DRAINED_BYTES = 4 * BODY_BYTES
"""How much of a body that is too large is read away, so that the client gets to read the answer."""

log = structlog.get_logger()


class Guard:
    """Lets in who has one of the keys, with the whole of a body that keeps within the bounds."""

    def __init__(self, app: ASGIApp, deps: Deps, *, body_seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._deps = deps
        self._digests = deps.settings.admin.digests
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("the admin API serves HTTP requests only")
        begun = False

        async def tell(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            answered = await self._refused(scope) or await self._body(scope, receive)
            if isinstance(answered, Response):
                await answered(scope, receive, tell)
            elif answered is not None:
                await self._app(scope, _replay(answered, receive), tell)
        except (Busy, OperationalError):
            if begun:
                raise
            await answers.database_away()(scope, receive, send)
        except Exception:
            log.exception("admin.failed")
            if not begun:
                await answers.failed()(scope, receive, send)

    async def _refused(self, scope: Scope) -> Response | None:
        """The answer to who has no key; None for who has one."""
        if not self._digests:
            return answers.refused(refusals.admin_unconfigured(Stop()))
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = shown[0].decode("latin-1").strip().partition(" ") if len(shown) == 1 else ("", "", "")
        presented = digest(key.strip())
        fits = [same_digest(one, presented) for one in self._digests]  # each is compared, whichever fits
        if scheme.lower() == "bearer" and any(fits):
            return None
        return answers.refused(await admin_denied(self._deps, refusals.admin_key_wrong(Stop())))

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """The whole body, or the refusal of one that is too large or slow; None when the client went away."""
        try:
            async with asyncio.timeout(self._body_seconds):
                return await _read(scope, receive)
        except TimeoutError:
            return answers.refused(refusals.too_slow(Stop()))


async def _read(scope: Scope, receive: Receive) -> bytes | Response | None:
    declared = [value for name, value in scope["headers"] if name == b"content-length"]
    if declared and declared[0].isdigit() and int(declared[0][:20]) > DRAINED_BYTES:
        return answers.refused(refusals.too_large(Stop(), most=BODY_BYTES))
    chunks: list[bytes] = []
    size, more = 0, True
    while more and size <= DRAINED_BYTES:
        message = await receive()
        if message["type"] != "http.request":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        more = message.get("more_body", False)
        if size <= BODY_BYTES:
            chunks.append(chunk)
    return b"".join(chunks) if size <= BODY_BYTES else answers.refused(refusals.too_large(Stop(), most=BODY_BYTES))


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, then what the server has to say (that the client went away)."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
