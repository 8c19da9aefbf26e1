"""The registry of a running server, over its admin API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from onbe.directory.decide import is_id, loopback, shown

SECONDS = 30.0
ANSWER_BYTES = 16 * 1024 * 1024
PAGE = 200


class Trouble(Exception):
    """What was asked cannot be done. `errors` has one entry for each thing that is wrong: `detail`, and where it is
    known `file` and `pointer`."""

    def __init__(self, *errors: Mapping[str, str]) -> None:
        self.errors = errors
        super().__init__("; ".join(self.lines))

    @property
    def lines(self) -> list[str]:
        """One line for each."""
        return [
            f"{one['file'] + ': ' if 'file' in one else ''}"
            f"{member + ' ' if (member := one.get('pointer', '').removeprefix('#').removeprefix('/')) else ''}"
            f"{one['detail']}"
            for one in self.errors
        ]


def fit(url: str) -> str:
    """What is wrong with the address of a server to which a key is to be sent; nothing where it is fit."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or parts.query or parts.fragment or "@" in parts.netloc:
        return "should be an address like https://onbe.example.com"
    if parts.scheme == "http" and not loopback(host):
        return "should be https: the admin key would go to another machine where anybody on the way can read it"
    return ""


class Registry:
    """An administrator's connection to one server. Raises Trouble for whatever is not an answer to be used."""

    def __init__(self, url: str, key: str, transport: httpx2.BaseTransport | None = None) -> None:
        self._url = url.rstrip("/")
        local = loopback(urlsplit(url).hostname or "")
        self._http = httpx2.Client(
            base_url=f"{self._url}/admin",
            headers={"Authorization": f"Bearer {key}", "Accept": "application/json"},
            timeout=SECONDS,
            trust_env=not local,  # what is on this machine is not asked through a proxy
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def all(self) -> list[dict[str, Any]]:
        """Every agent, in the order of the ids."""
        agents: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = self._ask("GET", "/agents", {"after": after, "limit": PAGE})
            agents += page["agents"]
            after = page["next"]
        return agents

    def read(self, agent_id: str) -> dict[str, Any] | None:
        """An agent; None where there is none of that id."""
        return self._ask("GET", f"/agents/{agent_id}", none_at=404) or None

    def create(self, members: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Register an agent."""
        self._ask("POST", "/agents", _dry(dry_run), members)

    def change(self, agent_id: str, patch: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Apply a merge patch to an agent."""
        self._ask("PATCH", f"/agents/{agent_id}", _dry(dry_run), patch)

    def delete(self, agent_id: str) -> None:
        """Delete an agent."""
        if not is_id(agent_id):
            raise Trouble({"detail": f"{shown(agent_id)} is no agent's id"})
        self._ask("DELETE", f"/agents/{agent_id}")

    def _ask(
        self, method: str, path: str, params: Mapping[str, Any] | None = None, body: object = None, *, none_at: int = 0
    ) -> dict[str, Any]:
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            with self._http.stream(method, path, params=params, content=content, headers=headers) as answer:
                text = b""
                for chunk in answer.iter_bytes():
                    text += chunk
                    if len(text) > ANSWER_BYTES:
                        raise Trouble({"detail": f"{self._url} answers without end"})
                status = answer.status_code
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Trouble({"detail": f"{self._url} cannot be reached: {type(error).__name__}"}) from None
        try:
            said = json.loads(text) if text else {}
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise Trouble({"detail": f"{self._url} does not answer as an Onbe does (HTTP {status})"})
        if status == none_at and said.get("type") == "urn:onbe:refusal:agent_unknown":
            return {}
        if status >= 300:
            raise self._told(status, said)
        return said

    def _told(self, status: int, said: Mapping[str, Any]) -> Trouble:
        errors = said.get("errors")
        if isinstance(errors, list) and errors:
            return Trouble(*({"pointer": shown(str(one["pointer"])), "detail": str(one["detail"])} for one in errors))
        detail = said.get("detail")
        known = detail if isinstance(detail, str) else f"it does not answer as an Onbe does (HTTP {status})"
        return Trouble({"detail": f"{self._url}: {known}"})


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dry_run": "true"} if dry_run else {}
