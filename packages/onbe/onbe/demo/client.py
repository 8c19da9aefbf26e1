"""What the story's people and programs send, over the public endpoints alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from keel.telling import Wrong
from onbe import names
from onbe_client import AgentKey
from onbe_client.clock import SystemWorld

UP = "`onbe serve --development` serves; `onbe doctor` checks what it needs"
SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: its status and its JSON."""

    status: int
    body: Mapping[str, Any]

    @property
    def text(self) -> str:
        """In one line for a person: never with a token or grant in it."""
        told = [
            str(self.body[name]) for name in ("error", "reason", "error_description", "detail") if name in self.body
        ]
        return f"{self.status} {': '.join(told)}".strip()

    def good(self, what: str) -> Mapping[str, Any]:
        """The JSON of an answer that must be a success. Raises Wrong."""
        if self.status // 100 != 2:
            raise Wrong(f"that {what}", self.text, UP if self.status in (404, 503) else None)
        return self.body

    def denied(self, error: str, reason: str | None = None) -> str:
        """The text of an answer that must be this refusal. Raises Wrong."""
        wanted = f"{error}{f', reason {reason}' if reason else ''}"
        if self.body.get("error") != error or (reason and self.body.get("reason") != reason):
            raise Wrong(f"a refusal: {wanted}", self.text)
        return f"{self.status} {wanted}"


class Server:
    """One Onbe, as its administrator and its agents meet it."""

    def __init__(self, url: str, admin_key: str, http: httpx2.AsyncClient) -> None:
        self.url = url.rstrip("/")
        self._admin = {"Authorization": f"Bearer {admin_key}"}
        self._http = http

    async def ask(self, method: str, path: str, **how: Any) -> Said:
        """One request without a key. Raises Wrong where no answer comes."""
        try:
            answer = await self._http.request(method, f"{self.url}{path}", timeout=SECONDS, **how)
        except httpx2.HTTPError as error:
            raise Wrong(f"an answer of {self.url}{path}", f"{type(error).__name__}: {error}", UP) from None
        try:
            body = answer.json()
        except ValueError:  # nothing, or somebody's page: the status says what it is worth
            body = {}
        return Said(answer.status_code, body if isinstance(body, dict) else {})

    async def admin(self, method: str, path: str, **how: Any) -> Said:
        """One request of the administrator's."""
        return await self.ask(method, path, headers=self._admin, **how)


class Agent:
    """A program with a private key of its own, which it shows itself by (RFC 7523)."""

    def __init__(self, server: Server, name: str, key: AgentKey) -> None:
        self.name = name
        self.key = key
        self._server = server
        self._world = SystemWorld()

    def _shown(self) -> str:
        return self.key.assertion(self.name, self._server.url, self._world, ahead=0.0, instance=None)

    async def exchange(self, subject_token: str, resource: str, scope: str) -> Said:
        """Begin a task (RFC 8693)."""
        form = {
            "grant_type": names.EXCHANGE,
            "subject_token": subject_token,
            "subject_token_type": names.ISSUED_AS,
            "actor_token": self._shown(),
            "actor_token_type": names.ACTOR_TYPES[0],
            "resource": resource,
            "scope": scope,
        }
        return await self._server.ask("POST", names.ENDPOINT, data=form)

    async def refresh(self, grant: str, **more: str) -> Said:
        """Ask for the task's next token."""
        form = {"grant_type": names.REFRESH, "refresh_token": grant, **self._client(), **more}
        return await self._server.ask("POST", names.ENDPOINT, data=form)

    async def revoke(self, token: str) -> Said:
        """End what the grant or token stands for (RFC 7009)."""
        return await self._server.ask("POST", names.REVOKE_PATH, data={"token": token, **self._client()})

    async def introspect(self, token: str) -> Said:
        """Ask whether a token is good (RFC 7662)."""
        return await self._server.ask("POST", names.INTROSPECT_PATH, data={"token": token, **self._client()})

    def _client(self) -> dict[str, str]:
        return {"client_assertion": self._shown(), "client_assertion_type": names.ASSERTION_TYPE}
