"""A world whose time is the test's, and a small Onbe that says what the test wants: it stands for the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx2
from joserfc import jwt
from joserfc.jwk import ECKey

from keel.testing import FakeClock, FakeIds

ISSUER = "https://onbe.test"
RESOURCE = "https://files.test"
GRANT = "task_grant_" + "g" * 43
TASK = "task_01J0000000000000000000000A"
PERSON = "eyJhbGciOiJub25lIn0.person-token-that-is-secret.c2lnbmF0dXJl"


@cache
def agent_key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "agent-key"}, private=True)


@cache
def issuer_key() -> ECKey:
    return ECKey.generate_key("P-256", {"kid": "issuer-key", "use": "sig", "alg": "ES256"}, private=True)


class FakeWorld:
    """A `World` on a FakeClock. Whoever waits moves the clock, but never past somebody who wakes earlier."""

    def __init__(self, clock: FakeClock | None = None, chance: float = 0.5) -> None:
        self.clock = clock or FakeClock()
        self.luck = chance
        self._ids = FakeIds()
        self._wakes: list[float] = []
        self.waits: list[float] = []

    def now(self) -> float:
        return self.clock.now().timestamp()

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def chance(self) -> float:
        return self.luck

    def nonce(self) -> str:
        return self._ids.token()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        wake = self.monotonic() + seconds
        self._wakes.append(wake)
        try:
            while self.monotonic() < wake:
                await asyncio.sleep(0)
                if wake == min(self._wakes) and self.monotonic() < wake:
                    self.clock.advance(wake - self.monotonic())
        finally:
            self._wakes.remove(wake)

    def pause(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)


Reply = httpx2.Response | Exception | dict[str, Any] | Callable[[dict[str, str]], Any]


def error(status: int, code: str, reason: str | None = None, **headers: str) -> httpx2.Response:
    body = {"error": code, "error_description": "As the test says."} | ({"reason": reason} if reason else {})
    return httpx2.Response(status, json=body, headers=headers)


class FakeOnbe:
    """Metadata, and a token endpoint that issues tokens by the world's clock until `replies` says otherwise.

    Each of `replies` answers one request to a POST endpoint; None among them is the usual answer. `down` answers all.
    """

    def __init__(self, world: FakeWorld, life: float = 30, task: float = 600) -> None:
        self.world = world
        self.life = life
        self.task_ends = world.now() + task
        self.replies: list[Reply | None] = []
        self.down: Reply | None = None
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "token_endpoint": f"{ISSUER}/oauth2/token",
            "jwks_uri": f"{ISSUER}/.well-known/jwks.json",
            "revocation_endpoint": f"{ISSUER}/oauth2/revoke",
            "introspection_endpoint": f"{ISSUER}/oauth2/introspect",
        }
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.issued: dict[str, float] = {}
        """Token to when it expires, on the monotonic clock."""
        self.gate: asyncio.Event | None = None

    @property
    def forms(self) -> list[dict[str, str]]:
        return [form for url, form in self.asked if form]

    @property
    def refreshes(self) -> list[dict[str, str]]:
        return [form for form in self.forms if form.get("grant_type") == "refresh_token"]

    def token(self, task: str = TASK) -> dict[str, Any]:
        """A usual answer of the token endpoint."""
        now = self.world.now()
        life = int(min(self.life, self.task_ends - now))
        claims = {
            "iss": ISSUER, "sub": "anna", "aud": RESOURCE, "exp": int(now) + life, "iat": int(now),
            "jti": f"tok_{len(self.issued)}", "scope": "a b", "task": {"id": task, "exp": int(self.task_ends)},
        }  # fmt: skip
        token = jwt.encode({"alg": "ES256", "kid": "issuer-key", "typ": "at+jwt"}, claims, issuer_key())
        self.issued[token] = self.world.monotonic() + life
        return {
            "access_token": token, "token_type": "Bearer", "expires_in": life, "scope": "a b", "refresh_token": GRANT,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "task_id": task,
            "task_expires_at": int(self.task_ends),
        }  # fmt: skip

    def left(self, token: str) -> float:
        """Seconds until a token expires."""
        return self.issued[token] - self.world.monotonic()

    def _reply(self, request: httpx2.Request) -> httpx2.Response:
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        self.asked.append((str(request.url), form))
        if request.method == "GET":
            if isinstance(self.down, Exception):
                raise self.down
            return httpx2.Response(200, json=self.metadata)
        said = self.down or (self.replies.pop(0) if self.replies else None)
        if said is None:
            said = self.token() if request.url.path.endswith("/token") else httpx2.Response(200)
        if callable(said):
            said = said(form)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, httpx2.Response):  # one response can be read once
            return httpx2.Response(said.status_code, headers=said.headers, content=said.content)
        return httpx2.Response(200, content=json.dumps(said))

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        if self.gate is not None:
            await self.gate.wait()
        return self._reply(request)

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.handle))

    def blocking_http(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._reply))
