"""A SCIM service: is this user active? Sources: RFC 7643, 4.1.1 (`active`), 2.1 (names); RFC 7644, 3.4, 3.12."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from string import ascii_uppercase
from typing import Any, Literal
from urllib.parse import quote

import httpx2

from keel.clock import Clock
from keel.db import forbid_in_transaction
from onbe.drivers.sponsors.fetching import Reply, fetched, sayable, segment
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer, Unreachable

_LOWER = {ord(letter): letter.lower() for letter in ascii_uppercase}

Lookup = Literal["id", "externalId", "userName"]


class ScimDirectory:
    """`url` is the service's base, as https://id.example.com/scim/v2. `lookup` is what a person's key is there."""

    def __init__(
        self, url: str, token: str, lookup: Lookup, clock: Clock, client: httpx2.AsyncClient, seconds: float
    ) -> None:
        self._users = f"{url}/Users"
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/scim+json, application/json"}
        self._lookup = lookup
        self._clock = clock
        self._client = client
        self._seconds = seconds

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        """A fresh answer. Raises CannotAnswer."""
        forbid_in_transaction("the SCIM service")
        at = self._clock.now()
        where = self._where(sponsor)
        try:
            async with asyncio.timeout(self._seconds):
                reply = await fetched(self._client, self._client.build_request("GET", where, headers=self._headers))
        except TimeoutError:
            raise Unreachable(f"the SCIM service did not answer within {self._seconds:g} s") from None
        user = self._found(reply, sponsor)
        if user is None:
            return Answer("not_found", at)
        active = _member(user, "active")
        if not isinstance(active, bool):
            raise CannotAnswer("the SCIM service did not say clearly whether the user is active")
        return Answer("active" if active else "disabled", at)

    def _where(self, sponsor: str) -> str:
        if self._lookup == "id":
            return f"{self._users}/{segment(sponsor)}"
        value = json.dumps(sayable(sponsor), ensure_ascii=False)
        return f"{self._users}?filter={quote(f'{self._lookup} eq {value}', safe='')}&startIndex=1&count=2"

    def _found(self, reply: Reply, sponsor: str) -> Mapping[str, Any] | None:
        """The user that the answer is about; None where there is none. Raises CannotAnswer."""
        status = reply.status
        if status in (401, 403, 408, 429) or status >= 500 or 300 <= status < 400:
            raise Unreachable(f"the SCIM service answered with status {status}")
        if status == 404 and self._lookup == "id":
            reply.document_if_any()
            return None
        if status != 200:
            raise CannotAnswer(f"the SCIM service answered with status {status}")
        user = reply.document() if self._lookup == "id" else _only(reply.document())
        if user is not None and not self._same(_member(user, self._lookup), sponsor):
            raise CannotAnswer("the SCIM service answered about another user than the one asked about")
        return user

    def _same(self, said: object, sponsor: str) -> bool:
        """`id` and `externalId` are compared exactly, `userName` in any case of its letters (RFC 7643, 4.1.1).

        Of ASCII's letters alone: elsewhere two names that are not the same fold into one.
        """
        if self._lookup == "userName":
            return isinstance(said, str) and said.translate(_LOWER) == sponsor.translate(_LOWER)
        return said == sponsor


def _only(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one user of a list (RFC 7644, 3.4.2); None of an empty one. Raises CannotAnswer for anything else."""
    total, users = _member(found, "totalResults"), _member(found, "Resources")
    if type(total) is int and total == 0 and users in (None, []):
        return None
    if type(total) is not int or total != 1 or not isinstance(users, list) or len(users) != 1:
        raise CannotAnswer("the SCIM service's list is not of one user")
    if not isinstance(users[0], dict):
        raise CannotAnswer("the SCIM service's list holds what is no user")
    return users[0]


def _member(document: Mapping[str, Any], name: str) -> object:
    """A member, whatever the case of its name (RFC 7643, 2.1). Raises CannotAnswer where it stands there twice."""
    found = [value for key, value in document.items() if key.lower() == name.lower()]
    if len(found) > 1:
        raise CannotAnswer("the SCIM service's answer says a thing twice")
    return found[0] if found else None
