"""The guard before an ASGI application, whatever it is made with."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from onbe_client.answers import words
from onbe_client.errors import Misconfigured
from onbe_client.guard.denied import Denied
from onbe_client.guard.guard import Guard
from onbe_client.guard.token import TaskToken

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

STATE = "onbe_task_token"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "WEBSOCKET")


class GuardMiddleware:
    """Lets in requests whose token holds the scope of their route.

    `rules`: from a path, or a method and a path (`"GET /files"`), to the scopes needed (`"files:read"`; `""` for any
    good token; None for no token at all). A path stands for all below it; the longest one that fits decides, and of
    two as long the one with the method. HEAD is as GET, a websocket is `WEBSOCKET`. What no rule fits is refused.
    `publish`: serve the resource's metadata (RFC 9728) for an audience that is an address, and name it in challenges.
    `resource_metadata`: the address of metadata served elsewhere.
    """

    def __init__(
        self,
        app: App,
        guard: Guard,
        rules: Mapping[str, str | None],
        *,
        publish: bool = False,
        resource_metadata: str | None = None,
    ) -> None:
        self._app = app
        self._guard = guard
        self._rules = dict(_rule(name, scope) for name, scope in rules.items())
        self._published: str | None = None
        if publish:
            where = urlsplit(guard.audience)
            if where.scheme not in ("http", "https") or not where.netloc:
                raise Misconfigured("audience_unfit", "An audience that is no address has no metadata to publish.")
            self._published = f"{WELL_KNOWN}{where.path.rstrip('/')}"
            resource_metadata = resource_metadata or f"{where.scheme}://{where.netloc}{self._published}"
        self._resource_metadata = resource_metadata

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        method = "WEBSOCKET" if scope["type"] == "websocket" else str(scope["method"]).upper()  # as routers may
        path = _path(scope)
        if path == self._published and method in ("GET", "HEAD"):
            await _answer(send, 200, self._document(), {"cache-control": "max-age=3600"})
            return
        try:
            needed = self._needed(method, path)
            if needed is not None:
                scope[STATE] = await self._guard.authorize(_authorization(scope), *needed)
        except Denied as denied:
            await self._refuse(scope, send, denied)
            return
        await self._app(scope, receive, send)

    def _needed(self, method: str, path: str) -> tuple[str, ...] | None:
        """The scopes of a route; None where none is needed. Raises Denied where no rule fits."""
        parts = path.split("/")
        plain = path.isprintable() and "\\" not in path  # a router's pattern may let a line break pass at its end
        if not plain or parts[0] or "" in parts[1:-1] or "." in parts or ".." in parts:
            raise Denied("invalid_request", "path", "The path is not spelled plainly.")
        if parts[-1] == "":
            parts.pop()
        asked = "GET" if method == "HEAD" else method
        for end in range(len(parts), 0, -1):
            place = "/".join(parts[:end])
            for key in ((asked, place), ("", place)):
                if key in self._rules:
                    return self._rules[key]
        raise Denied("insufficient_scope", "no_rule", "No token opens this.")

    def _document(self) -> dict[str, Any]:
        """RFC 9728, 2."""
        scopes = sorted({word for needed in self._rules.values() for word in needed or ()})
        return {
            "resource": self._guard.audience,
            "authorization_servers": [self._guard.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
        }

    async def _refuse(self, scope: Scope, send: Send, denied: Denied) -> None:
        headers = {"cache-control": "no-store"}
        challenge = denied.challenge(self._resource_metadata)
        if challenge is not None:
            headers["www-authenticate"] = challenge
        if denied.status == 503:
            headers["retry-after"] = "1"
        if scope["type"] == "http":
            await _answer(send, denied.status, denied.body(), headers)
        elif "websocket.http.response" in scope.get("extensions", {}):
            await _answer(send, denied.status, denied.body(), headers, "websocket.http.response")
        else:
            await send({"type": "websocket.close", "code": 1008})


def task_token(request: Any) -> TaskToken:
    """The token that let a request in: of an ASGI scope, or of a Starlette request, which has it as `.scope`.

    Raises LookupError where there is none: no guard stands before the route, or its rule wants no token.
    """
    scope = request if isinstance(request, Mapping) else request.scope
    found = scope.get(STATE)
    if not isinstance(found, TaskToken):
        raise LookupError("no guard has seen this request")
    return found


def _rule(name: str, scope: str | None) -> tuple[tuple[str, str], tuple[str, ...] | None]:
    method, _, path = name.rpartition(" ")
    if not path.startswith("/") or (method and method not in METHODS):
        raise Misconfigured("rule_unfit", 'A rule is for a path, "/files", or for a method and a path, "GET /files".')
    try:
        return (method, path.rstrip("/")), None if scope is None else words(scope)
    except ValueError:
        raise Misconfigured("rule_unfit", "A rule's scope is words with spaces between them.") from None


def _path(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path


def _authorization(scope: Scope) -> str | None:
    """Raises Denied where there are several, of which another server might take another (RFC 9110, 5.3)."""
    found = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(found) > 1:
        raise Denied("invalid_request", "two_headers", "There is more than one Authorization header.")
    return found[0].decode("latin-1") if found else None


async def _answer(
    send: Send, status: int, document: Mapping[str, Any], headers: Mapping[str, str], kind: str = "http.response"
) -> None:
    body = json.dumps(document).encode()
    every = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    listed = [(name.encode(), value.encode("latin-1")) for name, value in every.items()]
    await send({"type": f"{kind}.start", "status": status, "headers": listed})
    await send({"type": f"{kind}.body", "body": body})
