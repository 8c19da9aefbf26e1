"""The guard before an ASGI application: routes, answers, challenges, the published metadata."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from tests.unit.onbe.client.stage import ISSUER, RESOURCE
from tests.unit.onbe.guard.issuer import Issuer

from onbe_client import Misconfigured
from onbe_client.guard import Guard, GuardMiddleware, task_token

RULES = {
    "/files": "files:read",
    "POST /files": "files:write",
    "/files/shared": "",
    "/health": None,
    "GET /": "files:list",
}


async def everything(request: Request) -> JSONResponse:
    try:
        token = task_token(request)
    except LookupError:
        return JSONResponse({"path": request.url.path})
    return JSONResponse({"path": request.url.path, "sub": token.subject, "agent": token.agent})


APP = Starlette(routes=[Route("/{path:path}", everything, methods=["GET", "POST", "DELETE"])])


def client(app: Any, token: str | None = None) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=RESOURCE, headers=headers)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/files", 200), ("GET", "/files/", 200), ("GET", "/files/one/two", 200), ("HEAD", "/files/one", 200),
        ("POST", "/files", 403), ("post", "/files", 403), ("POST", "/files/one", 403), ("DELETE", "/files/one", 200),
        ("GET", "/files/shared", 200), ("POST", "/files/shared/one", 200),
        ("GET", "/", 200), ("GET", "/filesystem", 200), ("DELETE", "/other", 403), ("POST", "/", 403),
        ("GET", "/health", 200), ("GET", "/healthy", 200),
        ("GET", "/health/../files", 400), ("GET", "/health/%2e%2e/files", 400), ("GET", "//files", 400),
        ("GET", "/health//files", 400), ("GET", "/health/.", 400), ("GET", "/health\\..\\files", 400),
        ("POST", "/files%0A", 400), ("GET", "/other%0A", 400), ("GET", "/files%00", 400), ("GET", "/x%E2%80%A8", 400),
    ],
)  # fmt: skip
async def test_the_longest_rule_decides_and_a_method_of_its_own_before_any(
    guard: Guard, issuer: Issuer, method: str, path: str, status: int
) -> None:
    token = issuer.token()
    scope: MutableMapping[str, Any] = {
        "type": "http", "method": method, "path": unquote(path),
        "headers": [(b"Authorization", f"Bearer {token}".encode())], "query_string": b"", "root_path": "",
    }  # fmt: skip
    assert await status_of(GuardMiddleware(APP, guard, RULES), scope) == status


async def status_of(app: Callable[..., Awaitable[None]], scope: MutableMapping[str, Any]) -> int:
    said: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope, receive, send)
    return int(said[0].get("status", said[0].get("code", 0)))


async def test_a_route_without_a_token_says_where_to_get_one(guard: Guard) -> None:
    app = GuardMiddleware(APP, guard, RULES, publish=True)
    async with client(app) as http:
        answer = await http.get("/files")
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == (
            f'Bearer scope="files:read", resource_metadata="{RESOURCE}/.well-known/oauth-protected-resource"'
        )
        assert answer.headers["cache-control"] == "no-store"
        metadata = (await http.get("/.well-known/oauth-protected-resource")).json()
    assert metadata == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["files:list", "files:read", "files:write"],
        "bearer_methods_supported": ["header"],
    }


async def test_the_route_knows_who_acts_for_whom(guard: Guard, issuer: Issuer) -> None:
    async with client(GuardMiddleware(APP, guard, RULES), issuer.token()) as http:
        assert (await http.get("/files")).json() == {"path": "/files", "sub": "anna", "agent": "reports"}
        assert (await http.get("/health")).json() == {"path": "/health"}


async def test_each_denial_has_its_status_and_its_challenge(guard: Guard, issuer: Issuer) -> None:
    app = GuardMiddleware(APP, guard, RULES, resource_metadata="https://files.test/meta")
    async with client(app, issuer.token(typ="JWT")) as http:
        bad = await http.get("/files")
    async with client(app, issuer.token()) as http:
        lacking = await http.post("/files")
        two = await http.get("/files", headers=[("Authorization", "Bearer a"), ("Authorization", "Bearer b")])
    async with client(app, issuer.token(issuer.claims(introspect_required=True))) as http:
        unknown = await http.get("/files")
    assert [answer.status_code for answer in (bad, lacking, two, unknown)] == [401, 403, 400, 503]
    assert [answer.json()["error"] for answer in (bad, lacking, two, unknown)] == [
        "invalid_token", "insufficient_scope", "invalid_request", "temporarily_unavailable",
    ]  # fmt: skip
    assert 'error="invalid_token"' in bad.headers["www-authenticate"]
    assert 'scope="files:write", resource_metadata="https://files.test/meta"' in lacking.headers["www-authenticate"]
    assert "www-authenticate" not in unknown.headers
    assert unknown.headers["retry-after"] == "1"


async def test_a_token_in_the_query_or_the_body_is_no_token(guard: Guard, issuer: Issuer) -> None:
    token = issuer.token()
    async with client(GuardMiddleware(APP, guard, RULES)) as http:
        assert (await http.get("/files", params={"access_token": token})).status_code == 401
        assert (await http.post("/files", data={"access_token": token})).status_code == 401


async def test_below_a_mount_rules_are_for_the_paths_there(guard: Guard, issuer: Issuer) -> None:
    outer = Starlette(routes=[Mount("/api", GuardMiddleware(APP, guard, {"/files": "files:read"}))])
    async with client(outer, issuer.token()) as http:
        assert (await http.get("/api/files")).status_code == 200
        assert (await http.get("/api/other")).status_code == 403


async def test_a_websocket_is_guarded_like_a_request(guard: Guard, issuer: Issuer) -> None:
    entered: list[str] = []

    async def inner(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        entered.append(task_token(scope).subject)
        await send({"type": "websocket.accept", "status": 101})

    app = GuardMiddleware(inner, guard, {"WEBSOCKET /live": "files:read", "GET /live": None})
    scope: dict[str, Any] = {"type": "websocket", "path": "/live", "headers": []}
    assert await status_of(app, dict(scope)) == 1008
    assert await status_of(app, {**scope, "extensions": {"websocket.http.response": {}}}) == 401
    assert entered == []
    good = [(b"authorization", f"Bearer {issuer.token()}".encode())]
    assert await status_of(app, {**scope, "headers": good}) == 101
    assert entered == ["anna"]


def test_rules_that_say_nothing_clear_are_refused(guard: Guard) -> None:
    for rules in ({"files": ""}, {"GET files": ""}, {"FETCH /files": ""}, {"/files": 'a"b'}, {"get /files": ""}):
        with pytest.raises(Misconfigured):
            GuardMiddleware(APP, guard, rules)
    with pytest.raises(Misconfigured):
        GuardMiddleware(APP, Guard(ISSUER, "urn:files"), {}, publish=True)


async def test_what_a_stranger_sends_stands_in_no_answer_and_no_log(
    guard: Guard, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "Zm9yIHlvdXIgZXllcyBvbmx5" * 3
    async with client(GuardMiddleware(APP, guard, RULES, publish=True)) as http:
        for value in (f"Bearer {secret}", f"Basic {secret}", f"Bearer {issuer.token(kid=secret)}"):
            answer = await http.get("/files", headers={"Authorization": value})
            assert answer.status_code == 401
            assert secret not in answer.text + str(answer.headers) + caplog.text
