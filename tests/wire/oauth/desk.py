"""A client of the test's and its person's browser, over the real endpoints and a real database."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from starlette.applications import Starlette
from tests.wire.web.browsing import PUBLIC, Browser

from rift.deps import Deps
from rift.wire.oauth.endpoints import oauth_routes
from rift.wire.oauth.metadata import metadata_routes
from rift.wire.web.site import web_routes

MCP = f"{PUBLIC}/mcp"
CALLBACK = "http://127.0.0.1:33418/callback"
VERIFIER = "a-verifier-of-the-tests-that-is-long-enough-for-it"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CLIENT = {"client_name": "Claude", "redirect_uris": ["http://127.0.0.1/callback"]}


class Desk:
    """`browser` is the person's, `http` the client's."""

    def __init__(self, deps: Deps) -> None:
        self.deps = deps
        app = Starlette(routes=[*metadata_routes(PUBLIC), *oauth_routes(deps), *web_routes(deps, PUBLIC)])
        self.transport = httpx2.ASGITransport(app=app)
        self.http = httpx2.AsyncClient(transport=self.transport, base_url=PUBLIC)
        self.browser = self.person()

    def person(self) -> Browser:
        """Another browser."""
        made = Browser(self.deps)
        made.client = httpx2.AsyncClient(transport=self.transport, base_url=PUBLIC)
        return made

    async def register(self, **said: object) -> str:
        """A client's id."""
        answer = await self.http.post("/oauth2/register", json={**CLIENT, **said})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["client_id"])

    async def allow(self, client: str, word: str = "allow", /, **said: str | None) -> dict[str, str]:
        """The person's word on a request: what the client hears at its redirect address."""
        sent = await self.browser.submit(path(client, **said), answer=word)
        assert sent.status_code == 303, sent.text
        return told(sent)

    async def code(self, client: str, **said: str | None) -> str:
        """A code."""
        return (await self.allow(client, **said))["code"]

    async def exchange(self, client: str, code: str, **said: str | None) -> httpx2.Response:
        """The answer to a code."""
        form = {
            "grant_type": "authorization_code", "client_id": client, "code": code, "redirect_uri": CALLBACK,
            "code_verifier": VERIFIER, "resource": MCP, **said,
        }  # fmt: skip
        return await self.post("token", form)

    async def renew(self, client: str, refresh: str, **said: str | None) -> httpx2.Response:
        """The answer to a refresh token."""
        return await self.post(
            "token", {"grant_type": "refresh_token", "client_id": client, "refresh_token": refresh, **said}
        )

    async def post(self, endpoint: str, form: Mapping[str, str | None], **headers: str) -> httpx2.Response:
        """A form of a client's; what is None is left out."""
        sent = {name: value for name, value in form.items() if value is not None}
        return await self.http.post(f"/oauth2/{endpoint}", data=sent, headers=headers)

    async def signed_in(self, email: str = "ada@example.com", **said: object) -> tuple[str, dict[str, Any]]:
        """A client that has its tokens: its id, and what it was given."""
        await self.browser.sign_in(email)
        client = await self.register(**said)
        answer = await self.exchange(client, await self.code(client))
        assert answer.status_code == 200, answer.text
        given: dict[str, Any] = json.loads(answer.text)
        return client, given


def path(client: str, **said: str | None) -> str:
    """The address that a client opens in the person's browser; what is None is left out."""
    query = {
        "response_type": "code", "client_id": client, "redirect_uri": CALLBACK, "state": "a state&more",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": MCP, "scope": "rift", **said,
    }  # fmt: skip
    return "/oauth2/authorize?" + urlencode({name: value for name, value in query.items() if value is not None})


def told(answer: httpx2.Response) -> dict[str, str]:
    """What a redirect says in its query, each once."""
    query = parse_qs(urlsplit(answer.headers["location"]).query, keep_blank_values=True)
    assert all(len(values) == 1 for values in query.values()), query
    return {name: values[0] for name, values in query.items()}


def is_redirect(answer: httpx2.Response) -> bool:
    """Whether it leads away from us."""
    return "location" in answer.headers and not answer.headers["location"].startswith("/sign-in?next=")
