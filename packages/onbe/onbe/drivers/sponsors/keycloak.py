"""Keycloak's admin API: is this user enabled?

Sources: Keycloak's Admin REST API, `GET /admin/realms/{realm}/users/{user-id}` (UserRepresentation: `id`, `enabled`);
RFC 6749, 4.4 (client credentials) for the service account, which needs the role `view-users` of `realm-management`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

import httpx2

from keel.clock import Clock
from keel.db import forbid_in_transaction
from onbe.drivers.sponsors.fetching import Reply, fetched, segment
from onbe.drivers.sponsors.protocol import Answer, CannotAnswer, Unreachable

RENEW_BEFORE = 10.0
"""A token of the service account is used until so many seconds before its end, or until half of a shorter life."""
LONGEST = 3600.0
"""The longest that one is used, in seconds, whatever it says of itself."""


@dataclass(frozen=True, slots=True)
class Service:
    """The service account that asks."""

    realm: str
    client_id: str
    client_secret: str = field(repr=False)


CLIENTS = "service-account-"
"""How the users are named that Keycloak keeps for its clients. Versions before 26.7 tell of one by its id as of anybody
(keycloak/keycloak#50277), and a client that gets itself a token would be a person.
"""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of the service account, and until when it is used, in monotonic seconds."""

    text: str = field(repr=False)
    until: float


class KeycloakDirectory:
    """`url` is Keycloak's address up to, not including, `/realms`. A person's key is the user's id, as in `sub`."""

    def __init__(self, url: str, service: Service, clock: Clock, client: httpx2.AsyncClient, seconds: float) -> None:
        realm = quote(service.realm, safe="")
        self._users = f"{url}/admin/realms/{realm}/users"
        self._tokens = f"{url}/realms/{realm}/protocol/openid-connect/token"
        self._service = service
        self._clock = clock
        self._client = client
        self._seconds = seconds
        self._token: Token | None = None
        self._renewing = asyncio.Lock()

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        """A fresh answer. Raises CannotAnswer."""
        forbid_in_transaction("Keycloak")
        at = self._clock.now()
        where = f"{self._users}/{segment(sponsor)}"
        try:
            async with asyncio.timeout(self._seconds):
                reply = await self._asked(where)
        except TimeoutError:
            raise Unreachable(f"Keycloak did not answer within {self._seconds:g} s") from None
        if reply.status == 404:
            said = reply.document_if_any()
            if "realm" in str(said.get("error", "")).lower():
                raise Unreachable("Keycloak does not know the realm", anyone=True)
            return Answer("not_found", at)
        if reply.status != 200:
            raise CannotAnswer(f"Keycloak answered with status {reply.status}")
        user = reply.document()
        if user.get("id") != sponsor:
            raise CannotAnswer("Keycloak answered about another user than the one asked about")
        if str(user.get("username", "")).lower().startswith(CLIENTS):
            return Answer("not_found", at)
        enabled = user.get("enabled")
        if not isinstance(enabled, bool):
            raise CannotAnswer("Keycloak did not say clearly whether the user is enabled")
        return Answer("active" if enabled else "disabled", at)

    async def _asked(self, where: str) -> Reply:
        """The answer of the users API, under a token that is renewed once if it is not taken."""
        token = await self._fresh(None)
        reply = await self._get(where, token)
        if reply.status == 401:
            reply = await self._get(where, await self._fresh(token))
        if reply.status == 403:
            raise Unreachable("Keycloak lets the service account see no users: it needs the role view-users")
        if reply.status in (401, 408, 429) or reply.status >= 500 or 300 <= reply.status < 400:
            raise Unreachable(f"Keycloak answered with status {reply.status}")
        return reply

    async def _get(self, where: str, token: Token) -> Reply:
        headers = {"Authorization": f"Bearer {token.text}", "Accept": "application/json"}
        return await fetched(self._client, self._client.build_request("GET", where, headers=headers))

    async def _fresh(self, refused: Token | None) -> Token:
        """The service account's token: another than the one that was refused. Of many callers one fetches it."""
        async with self._renewing:
            token = self._token
            if token is None or token is refused or self._clock.monotonic() >= token.until:
                self._token = None
                token = self._token = await self._granted()
            return token

    async def _granted(self) -> Token:
        begun = self._clock.monotonic()
        form = {
            "grant_type": "client_credentials",
            "client_id": self._service.client_id,
            "client_secret": self._service.client_secret,
        }
        request = self._client.build_request("POST", self._tokens, data=form, headers={"Accept": "application/json"})
        try:
            reply = await fetched(self._client, request)
            if reply.status != 200:
                raise Unreachable(f"Keycloak gave the service account no token: status {reply.status}", anyone=True)
            said = reply.document()
        except CannotAnswer as error:
            raise Unreachable(f"Keycloak gave the service account no token: {error}", anyone=True) from None
        text, life = said.get("access_token"), said.get("expires_in")
        if not isinstance(text, str) or not text.isascii() or not text.isprintable() or not text:
            raise Unreachable("Keycloak's answer holds no token that can be used", anyone=True)
        lasts = 0.0
        if isinstance(life, int | float) and not isinstance(life, bool):
            lasts = float(min(max(life, 0.0), LONGEST))
        return Token(text, begun + max(lasts - RENEW_BEFORE, lasts / 2))
