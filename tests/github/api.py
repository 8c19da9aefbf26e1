"""The REST API below `/api/v3`: finds who answers, counts calls against limits, has each answer looked at."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from tests.github import rest_app, rest_repos
from tests.github.call import DOCS, Answer, Call, Refused
from tests.github.events import Events
from tests.github.rest_app import Handler
from tests.github.shapes import stamp
from tests.github.world import World

PER_HOUR = 5000
SECONDARY = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. If you reach out to "
    "GitHub Support for help, please include the request ID."
)
ABOUT_LIMITS = f"{DOCS}/using-the-rest-api/rate-limits-for-the-rest-api"
Look = Callable[[str, str, int, Any], None]
"""Looks at an answer before it is given: method, path as in the document, status, body."""


@dataclass
class Limit:
    """Calls of one bucket in this hour."""

    used: int
    ends: datetime
    most: int = PER_HOUR


@dataclass
class Busy:
    """A secondary limit: calls of `bucket` (None: everybody's) are refused, `times` of them or until it is lifted."""

    bucket: str | None
    retry_after: int | None
    status: int
    times: int | None


@dataclass
class Trouble:
    """Calls whose path matches are answered with a status and no sense, `times` of them or until it is over."""

    pattern: re.Pattern[str]
    status: int
    times: int | None


@dataclass
class Rest:
    world: World
    events: Events
    limits: dict[str, Limit] = field(default_factory=dict)
    busy: list[Busy] = field(default_factory=list)
    trouble: list[Trouble] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Every call: the bucket of who made it, its method, its path."""
    look: Look | None = None

    def __post_init__(self) -> None:
        named = ((method, template, handler) for method, template, handler in (*rest_app.ROUTES, *rest_repos.ROUTES))
        self._routes: list[tuple[str, str, re.Pattern[str], Handler]] = [
            (method, template, re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", template)), handler)
            for method, template, handler in named
        ]

    async def serve(self, request: Request) -> Response:
        raw = await request.body()
        with self.world.lock:
            return self._serve(request, raw)

    def _serve(self, request: Request, raw: bytes) -> Response:
        path = "/" + request.path_params["path"]
        call = Call(
            self.world, request.method, path, "", {}, dict(request.query_params),
            request.headers.get("authorization", ""), raw,
        )  # fmt: skip
        headers: dict[str, str] = {"x-github-media-type": "github.v3; format=json"}
        try:
            handler = self._find(call)
            self._in_trouble(path)
            call.identify()
            self.calls.append((call.bucket, call.method, path))
            self._secondary(call)
            headers |= self._count(call)
            if handler is None:
                raise Refused(404, "Not Found")
            answer = handler(call, self.events)
        except Refused as no:
            answer = Answer(no.status, no.body, no.headers)
        if self.look is not None and call.template and answer.status not in (301, 302, 307):
            self.look(call.method, call.template, answer.status, answer.body)
        return self._response(request, answer, headers)

    def _find(self, call: Call) -> Handler | None:
        """Who answers. A repository may be called by its id too."""
        if found := re.fullmatch(r"/repositories/(\d+)(/.*)?", call.path):
            repo = self.world.repos.get(int(found[1]))
            if repo is None:
                return None
            call.path = f"/repos/{repo.full}{found[2] or ''}"
        for method, template, pattern, handler in self._routes:
            match = pattern.fullmatch(call.path)
            if match and method == call.method:
                call.template, call.named = template, match.groupdict()
                return handler
        return None

    def _response(self, request: Request, answer: Answer, headers: dict[str, str]) -> Response:
        if answer.body is None:
            return Response(None, answer.status, headers | dict(answer.headers))
        raw = json.dumps(answer.body).encode()
        if answer.status == 200:
            tag = f'W/"{hashlib.sha256(raw).hexdigest()}"'
            headers["etag"] = tag
            if request.method == "GET" and request.headers.get("if-none-match") == tag:
                return Response(None, 304, headers)
        return Response(raw, answer.status, headers | dict(answer.headers), "application/json; charset=utf-8")

    # Limits ---------------------------------------------------------------------------------------------------------

    def _in_trouble(self, path: str) -> None:
        for one in self.trouble:
            if one.pattern.search(path) and (one.times is None or one.times > 0):
                one.times = None if one.times is None else one.times - 1
                raise Refused(one.status, "Server Error")

    def _secondary(self, call: Call) -> None:
        for one in self.busy:
            if one.bucket in (None, call.bucket) and (one.times is None or one.times > 0):
                one.times = None if one.times is None else one.times - 1
                after = {} if one.retry_after is None else {"retry-after": str(one.retry_after)}
                raise Refused(one.status, SECONDARY, headers=after, docs=f"{ABOUT_LIMITS}#about-secondary-rate-limits")

    def limit(self, bucket: str) -> Limit:
        now = self.world.now()
        found = self.limits.get(bucket)
        if found is None or found.ends <= now:
            found = self.limits[bucket] = Limit(0, now + timedelta(hours=1))
        return found

    def _count(self, call: Call) -> dict[str, str]:
        limit = self.limit(call.bucket)
        over = limit.used >= limit.most
        limit.used += not over
        headers = {
            "x-ratelimit-limit": str(limit.most), "x-ratelimit-remaining": str(limit.most - limit.used),
            "x-ratelimit-reset": str(int(limit.ends.timestamp())), "x-ratelimit-used": str(limit.used),
            "x-ratelimit-resource": "core",
        }  # fmt: skip
        if over:
            kind, _, number = call.bucket.partition(":")
            who = f"{kind} ID {number}" if number else "127.0.0.1"
            when = stamp(self.world.now())
            help = f"If you reach out to GitHub Support for help, please include the request ID and timestamp {when}."
            said = f"API rate limit exceeded for {who}. {help}"
            raise Refused(403, said, headers=headers, docs=ABOUT_LIMITS)
        return headers
