"""An OpenID provider of the test's, in memory: honest, or as a test wants it wrong."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx2
from tests.unit.keel.jose.making import honest, public

from keel import jose
from keel.clock import Clock
from rift.drivers.signon.oidc import OidcConfig, OidcSignOn

ISSUER = "https://id.example.org/realms/main"
CLIENT, SECRET = "rift", "s&cret ü"
Answer = httpx2.Response


class Body(httpx2.AsyncByteStream):
    """The bytes of an answer, as they come over a wire."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data


@dataclass
class Provider:
    """`claims`, `header` change what its tokens say (None leaves out); `document` what it says of itself."""

    clock: Clock
    issuer: str = ISSUER
    secret: str | None = SECRET
    kind: str = "P-256"
    alg: str = "ES256"
    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    published: list[dict[str, Any]] = field(default_factory=lambda: [public("P-256"), public("rsa-2048")])
    userinfo: dict[str, Any] = field(default_factory=dict)
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "ada-1", "email": "ada@example.org", "email_verified": True}
    )
    token: Callable[[dict[str, Any]], object] | None = None
    """Makes the id token in place of an honest one."""
    override: dict[str, Answer] = field(default_factory=dict)
    """Answers by path."""
    asked: list[str] = field(default_factory=list)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def signon(self) -> OidcSignOn:
        config = OidcConfig(self.issuer, CLIENT, self.secret)
        return OidcSignOn(config, self.clock, lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(self._handle)))

    def code(self, url: str) -> str:
        """The person signs in at the address that the browser was sent to: the code to come back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert url.startswith(f"{self.issuer}/auth?")
        assert (asked["client_id"], asked["response_type"], asked["scope"]) == (CLIENT, "code", "openid email")
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return code

    def _handle(self, request: httpx2.Request) -> Answer:
        answer = self._answer(request)
        return Answer(answer.status_code, headers=answer.headers, stream=Body(answer.content))

    def _answer(self, request: httpx2.Request) -> Answer:
        path = request.url.path.removeprefix(urlsplit(self.issuer).path)
        self.asked.append(path)
        if path in self.override:
            return self.override[path]
        if path == "/.well-known/openid-configuration":
            said = {
                "issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/auth",
                "token_endpoint": f"{self.issuer}/token", "jwks_uri": f"{self.issuer}/keys", **self.document,
            }  # fmt: skip
            return Answer(200, json={name: value for name, value in said.items() if value is not None})
        if path == "/keys":
            return Answer(200, json={"keys": self.published})
        if path == "/userinfo":
            assert request.headers["authorization"] == "Bearer access"
            return Answer(200, json=self.userinfo)
        return self._token(request)

    def _token(self, request: httpx2.Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        asked = self._codes.pop(form["code"], None)
        challenge = jose.encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return Answer(400, json={"error": "invalid_grant"})
        if self._client(request, form) != (CLIENT, self.secret):
            return Answer(401, json={"error": "invalid_client"})
        now = self.clock.now().timestamp()
        claims = {
            "iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            **self.person, **self.claims,
        }  # fmt: skip
        claims = {name: value for name, value in claims.items() if value is not None}
        made = self.token(claims) if self.token else honest(self.kind, self.alg, claims, **self.header)
        return Answer(200, content=json.dumps({"access_token": "access", "token_type": "Bearer", "id_token": made}))

    def _client(self, request: httpx2.Request, form: dict[str, str]) -> tuple[str, str | None]:
        basic = request.headers.get("authorization", "").removeprefix("Basic ")
        if not basic:
            return form.get("client_id", ""), form.get("client_secret")
        client, _, secret = base64.b64decode(basic).decode().partition(":")
        return unquote(client), unquote(secret)
