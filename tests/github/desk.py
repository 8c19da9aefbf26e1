"""Somebody who knows the stand-in well: an organization with an App, people, repositories, and a client for its API."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import httpx2
from joserfc import jwt
from joserfc.jwk import RSAKey
from tests.github.model import App, Owner, Repo
from tests.github.standin import StandIn


class Desk:
    """`acme` has the App; Ada administers it, Grace is a member, Eve is nobody. The App covers `acme/app` alone."""

    def __init__(self, github: StandIn) -> None:
        self.github = github
        self.ada: Owner = github.make_user("ada")
        self.grace: Owner = github.make_user("grace")
        self.eve: Owner = github.make_user("eve")
        self.acme: Owner = github.make_org("acme", admins=[self.ada], members=[self.grace])
        back = ("http://127.0.0.1:9/back",)
        self.app: App = github.make_app(self.acme, callback_urls=back, setup_url="http://127.0.0.1:9/setup")
        self.repo: Repo = github.make_repo("acme/app")
        self.other: Repo = github.make_repo("acme/other")
        self.installation = github.install(self.app, self.acme, [self.repo], by=self.ada)
        self.token = github.user_token(self.app, self.ada).value
        self.its_token = github.installation_token(self.installation).value
        self._client = httpx2.Client(base_url=github.api, trust_env=False)

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def jwt(self, key: str | None = None, lasts: int = 300, **claims: Any) -> str:
        """What the App signs, for so many seconds from now; with other claims or another key as a test wants."""
        now = int(self.github.world.now().timestamp())
        told = {"iss": self.app.client_id, "iat": now - 60, "exp": now + lasts} | claims
        return jwt.encode({"alg": "RS256"}, told, RSAKey.import_key(key or self.app.pem), algorithms=["RS256"])

    def ask(self, method: str, path: str, token: str = "", body: Any = None, **headers: str) -> httpx2.Response:
        """A call of the API with a bearer token, or without."""
        given = {"accept": "application/vnd.github+json"} | headers
        if token:
            given["authorization"] = f"Bearer {token}"
        return self._client.request(method, path, json=body, headers=given)

    def as_client(self, method: str, path: str, body: Any) -> httpx2.Response:
        """A call with the App's client id and secret."""
        return self._client.request(method, path, json=body, auth=(self.app.client_id, self.app.client_secret))

    def sign_in(self, path: str, **fields: str) -> dict[str, Any]:
        """A call of `/login/…`, answered as JSON."""
        known = {"client_id": self.app.client_id} | fields
        answer = self._client.post(f"{self.github.url}{path}", data=known, headers={"accept": "application/json"})
        told: dict[str, Any] = answer.json()
        return told
