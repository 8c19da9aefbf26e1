"""GitHub's webhooks: `POST /hooks/github`.

What comes is signed over its bytes, and nothing of it is parsed before the signature is good. Who cannot sign learns
nothing, holds little, and is refused unread once they tried often. Source: GitHub, "Validating webhook deliveries".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from keel.buckets import Buckets, Rate
from keel.db import Busy, OperationalError, within
from keel.sizes import MIB
from keel.web.sources import networks, source
from rift.coverage import actions as coverage
from rift.coverage.decide import action_of
from rift.deps import Deps
from rift.drivers.github.protocol import GitHubError
from rift.github import actions as github
from rift.wire.hosts import hosts_of
from rift.wire.mcp.budget import Budget

PATH = "/hooks/github"
BODY_BYTES = 25 * MIB
"""GitHub sends no larger one."""
HELD_BYTES = 64 * MIB
"""What all bodies together may hold."""
STRANGERS = Rate(20, 60.0)
"""So often may one source send what is not signed as GitHub signs."""
ANSWER_SECONDS = 9.0
"""GitHub waits ten."""

_SIGNATURE = re.compile(r"sha256=([0-9a-f]{64})", re.ASCII)
_DELIVERY = re.compile(r"[A-Za-z0-9-]{8,64}", re.ASCII)
_EVENT = re.compile(r"[a-z_]{1,64}", re.ASCII)

log = structlog.get_logger()


def hook_routes(deps: Deps) -> list[BaseRoute]:
    """The one route."""
    return [Route(PATH, Hook(deps).take, methods=["POST"])]


class Hook:
    """What stands before a webhook: the host, how often, its headers, its size; and then its signature."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._hosts = hosts_of(deps.settings, deps.settings.server.address)
        self._trusted = networks(deps.settings.server.trusted_proxies)
        self._strangers = Buckets(STRANGERS)
        self._barred: dict[str, float] = {}
        self._budget = Budget(each=HELD_BYTES // 2, all=HELD_BYTES, seconds=2.0)

    async def take(self, request: Request) -> Response:
        """Answer one: 204 once it is noted, whatever it says; 401 for one that is not GitHub's."""
        if (other := self._hosts.refused(request)) is not None:
            return other
        who, now = source(request.scope, self._trusted), self._deps.clock.monotonic()
        if who is not None and (until := self._barred.get(who, 0.0)) > now:
            return _later(until - now)
        try:
            async with within(ANSWER_SECONDS, PATH):
                answer = await self._signed(request, who or "")
        except (OperationalError, Busy) as trouble:
            log.error("hooks.cannot_answer", error=type(trouble).__name__)
            return PlainTextResponse("This server cannot take it now.", 503, {"Retry-After": "60"})
        if answer.status_code in (400, 401, 413) and who is not None:
            self._count(who, now)
        return answer

    def _count(self, who: str, now: float) -> None:
        """Count what a stranger sent; who sent too much is not read for a while."""
        self._barred = {one: until for one, until in self._barred.items() if until > now}
        if (wait := self._strangers.take(who, now)) > 0:
            self._barred[who] = now + wait

    async def _signed(self, request: Request, who: str) -> Response:
        headers = request.headers
        signature = _SIGNATURE.fullmatch(headers.get("x-hub-signature-256", ""))
        event, delivery = headers.get("x-github-event", ""), headers.get("x-github-delivery", "")
        if signature is None:
            return _stranger()
        if not _EVENT.fullmatch(event) or not _DELIVERY.fullmatch(delivery):
            return PlainTextResponse("This is no webhook of GitHub's.", 400)
        length = headers.get("content-length", "")
        size = int(length) if length.isascii() and length.isdecimal() and len(length) < 12 else BODY_BYTES
        if size > BODY_BYTES:
            return _large()
        try:
            app = await github.app_of(self._deps)
        except GitHubError as trouble:
            log.error("hooks.no_app", reason=trouble.reason)
            return PlainTextResponse("This server cannot take it now.", 503, {"Retry-After": "60"})
        if app is None:
            return PlainTextResponse("Nothing is here.", 404)
        async with AsyncExitStack() as held:
            if await held.enter_async_context(self._budget.hold(who, size)) is not None:
                return PlainTextResponse("Too much is being read.", 503, {"Retry-After": "10"})
            body = await _body(request, app.webhook_secret)
            if isinstance(body, Response):
                return body
            raw, made = body
            if not app.webhook_secret or not hmac.compare_digest(made, signature[1]):
                return _stranger()
            said = _read(headers.get("content-type", ""), raw)
        if said is None:
            return PlainTextResponse("It is no JSON object.", 400)
        new = await coverage.heard(self._deps, delivery, event, said)
        log.info("hook.heard", hook=event, action=action_of(said), delivery=delivery, new=new)
        return Response(status_code=204)


async def _body(request: Request, secret: str) -> tuple[bytes, str] | Response:
    """The bytes, with the signature that they should have."""
    made, parts, size = hmac.new(secret.encode(), digestmod=hashlib.sha256), [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > BODY_BYTES:
                return _large()
            made.update(chunk)
            parts.append(chunk)
    except ClientDisconnect:
        return PlainTextResponse("It came to no end.", 400)
    return b"".join(parts), made.hexdigest()


def _read(kind: str, raw: bytes) -> Mapping[str, Any] | None:
    """The event's object, from JSON alone, as our App is made to send it."""
    if kind.partition(";")[0].strip().lower() != "application/json":
        return None
    try:
        said = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _stranger() -> Response:
    return PlainTextResponse("This is not signed as GitHub signs.", 401)


def _large() -> Response:
    return PlainTextResponse(f"It is larger than {BODY_BYTES // MIB} MiB.", 413)


def _later(seconds: float) -> Response:
    return PlainTextResponse("Too much of this was not GitHub's.", 429, {"Retry-After": str(math.ceil(seconds))})
