"""An issuer in memory: metadata, keys, introspection; and tokens, good ones and any others."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import parse_qs

import httpx2
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from tests.unit.onbe.client.stage import ISSUER, RESOURCE, FakeWorld, agent_key, issuer_key

from onbe_client.guard import Guard

Key = ECKey | OctKey | OKPKey | RSAKey


def part(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """`down` fails every request; `active` is what introspection says, an answer in its place where it is one."""

    def __init__(self, world: FakeWorld) -> None:
        self.world = world
        self.keys: list[dict[str, Any]] = [dict(issuer_key().as_dict(private=False))]
        self.down: httpx2.Response | Exception | None = None
        self.active: Any = True
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a good token, with these changed; None takes one out."""
        now = int(self.world.now())
        every: dict[str, Any] = {
            "iss": ISSUER, "sub": "anna", "aud": RESOURCE, "exp": now + 30, "iat": now, "jti": "tok_1",
            "scope": "files:read files:list", "client_id": "reports", "act": {"sub": "reports", "depth": 1},
            "task": {"id": "task_1", "exp": now + 600, "sponsor": "anna"}, **changes,
        }  # fmt: skip
        return {name: value for name, value in every.items() if value is not None}

    def token(
        self,
        claims: dict[str, Any] | None = None,
        *,
        key: Key | None = None,
        payload: bytes | None = None,
        **header: Any,
    ) -> str:
        """A signed token; `header` changes its header, None takes a member out."""
        members = {"alg": "ES256", "kid": "issuer-key", "typ": "at+jwt", **header}
        members = {name: value for name, value in members.items() if value is not None}
        body = payload if payload is not None else json.dumps(self.claims() if claims is None else claims).encode()
        signer = key or issuer_key()
        algorithm = jws.JWSRegistry.algorithms[members.get("alg", "ES256")]
        signed = f"{part(members)}.{part(body)}"
        return f"{signed}.{part(algorithm.sign(signed.encode(), signer))}"

    def guard(self, **options: Any) -> Guard:
        return Guard(ISSUER, RESOURCE, http=self.http(), world=self.world, **options)

    def asking(self, **options: Any) -> Guard:
        """A guard with credentials of its own."""
        return self.guard(agent_id="files", key=agent_key().as_dict(private=True), **options)

    def count(self, ending: str) -> int:
        return sum(url.endswith(ending) for url in self.asked)

    async def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(str(request.url))
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.down, Exception):
            raise self.down
        if self.down is not None:
            return httpx2.Response(self.down.status_code, headers=self.down.headers, content=self.down.content)
        if request.url.path.endswith("jwks.json"):
            return httpx2.Response(200, json={"keys": self.keys})
        if request.url.path.endswith("introspect"):
            form = parse_qs((await request.aread()).decode())
            assert form["client_assertion"]
            if isinstance(self.active, bool):
                return httpx2.Response(200, json={"active": self.active})
            return httpx2.Response(200, json=self.active) if isinstance(self.active, dict) else self.active
        return httpx2.Response(
            200,
            json={
                "issuer": ISSUER, "token_endpoint": f"{ISSUER}/oauth2/token",
                "jwks_uri": f"{ISSUER}/.well-known/jwks.json", "introspection_endpoint": f"{ISSUER}/oauth2/introspect",
            },
        )  # fmt: skip

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self.handle))
