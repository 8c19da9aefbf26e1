"""A directory of people over real HTTP: Keycloak's users API and token endpoint, and SCIM Users, of the same people.

Shapes as documented: Keycloak's UserRepresentation and its error documents; RFC 7643, 4.1 and RFC 7644, 3.4.2, 3.12.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.wire.serving import served

from keel.ids import Ids
from keel.testing import FakeIds

REALM, CLIENT, SECRET, BEARER = "main", "onbe", "s3cret&of=onbe", "bearer-of-scim"
SCIM_LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
SCIM_ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
SCIM_USER = "urn:ietf:params:scim:schemas:core:2.0:User"
FILTER = re.compile(r'(externalId|userName) eq (".*")', re.DOTALL)


@dataclass
class People:
    """`states` is who is how: True is active. The rest is what goes wrong, and what was seen."""

    states: dict[str, bool] = field(default_factory=dict)
    ids: Ids = field(default_factory=FakeIds)
    token_life: object = 60
    """What `expires_in` says."""
    instead: ASGIApp | None = None
    """Answers about people in place of the directory."""
    instead_of_token: ASGIApp | None = None
    said: dict[str, Any] = field(default_factory=dict)
    """Members of a person's document that are otherwise than they should be."""
    tokens: set[str] = field(default_factory=set)
    """The tokens of the service account that are taken."""
    token_requests: int = 0
    questions: list[str] = field(default_factory=list)
    """The raw paths, with the query, of all that was asked about people."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The directory as an application."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        request = Request(scope, receive)
        path = scope["raw_path"].decode()
        if path == f"/realms/{REALM}/protocol/openid-connect/token":
            self.token_requests += 1
            answer = self.instead_of_token or await self._token(request)
        else:
            self.questions.append(path + ("?" + scope["query_string"].decode() if scope["query_string"] else ""))
            answer = self.instead or self._about(request, path)
        await answer(scope, receive, send)

    async def _token(self, request: Request) -> Response:
        form = {name: values[-1] for name, values in parse_qs((await request.body()).decode()).items()}
        wanted = {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}
        if request.method != "POST" or form != wanted:
            return JSONResponse({"error": "unauthorized_client", "error_description": "Invalid client"}, 401)
        token = self.ids.token()
        self.tokens.add(token)
        answer = {
            "access_token": token, "expires_in": self.token_life, "refresh_expires_in": 0, "token_type": "Bearer",
            "not-before-policy": 0, "scope": "profile email",
        }  # fmt: skip
        return JSONResponse(answer)

    def _about(self, request: Request, path: str) -> Response:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if path.startswith("/admin/realms/"):
            realm, *rest = [unquote(part) for part in path.removeprefix("/admin/realms/").split("/")]
            if bearer not in self.tokens:
                return JSONResponse({"error": "HTTP 401 Unauthorized"}, 401)
            if realm != REALM:
                return JSONResponse({"error": "Realm not found."}, 404)
            return self._keycloak_user(rest[1]) if len(rest) == 2 and rest[0] == "users" else _page(404)
        if path.startswith("/scim/v2/Users"):
            rest = [unquote(part) for part in path.removeprefix("/scim/v2/Users").split("/")]
            if bearer != BEARER:
                return _scim_error(401)
            if len(rest) == 1:
                return self._scim_list(request)
            return self._scim_one(rest[1]) if len(rest) == 2 else _page(404)
        return _page(404)

    def _keycloak_user(self, person: str) -> Response:
        if person not in self.states:
            return JSONResponse({"error": "User not found"}, 404)
        return JSONResponse(
            {
                "id": person, "username": f"name-of-{person}", "firstName": "Ada", "lastName": "Lovelace",
                "email": "ada@example.test", "emailVerified": True, "createdTimestamp": 1_767_323_045_000,
                "enabled": self.states[person], "totp": False, "disableableCredentialTypes": [], "requiredActions": [],
                "notBefore": 0, "access": {"manage": False}, "attributes": {"locale": ["en"]},
                **self.said,
            }
        )  # fmt: skip

    def _scim_user(self, person: str) -> dict[str, Any]:
        return {
            "schemas": [SCIM_USER], "id": person, "externalId": person, "userName": person,
            "name": {"givenName": "Ada", "familyName": "Lovelace"}, "active": self.states[person],
            "emails": [{"value": "ada@example.test", "primary": True}],
            "meta": {"resourceType": "User", "created": "2026-01-02T03:04:05Z", "location": "/scim/v2/Users/x"},
            **self.said,
        }  # fmt: skip

    def _scim_one(self, person: str) -> Response:
        return _scim(self._scim_user(person)) if person in self.states else _scim_error(404)

    def _scim_list(self, request: Request) -> Response:
        asked = FILTER.fullmatch(request.query_params.get("filter", ""))
        try:
            value = json.loads(asked[2]) if asked else None
        except ValueError:
            value = None
        if asked is None or value is None:
            return _scim_error(400)
        insensitive = asked[1] == "userName"
        found = [
            self._scim_user(person)
            for person in self.states
            if person == value or (insensitive and person.lower() == value.lower())
        ]
        page = {"schemas": [SCIM_LIST], "totalResults": len(found), "startIndex": 1, "itemsPerPage": len(found)}
        return _scim({**page, "Resources": found} if found else page)


@asynccontextmanager
async def directory(people: People) -> AsyncIterator[str]:
    """Serve it while the block lasts. Yields its address."""
    async with served(people) as address:
        yield address


def _scim(document: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(document), status, media_type="application/scim+json")


def _scim_error(status: int) -> Response:
    return _scim({"schemas": [SCIM_ERROR], "status": str(status), "detail": "no"}, status)


def _page(status: int) -> Response:
    return Response("<html><body>Nothing here</body></html>", status, media_type="text/html")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
