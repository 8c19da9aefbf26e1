"""The guard: a bearer token in, a TaskToken or Denied out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx2
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from onbe_client import flows
from onbe_client.answers import TOKEN_LENGTH, failure
from onbe_client.clock import SystemWorld, World
from onbe_client.errors import Misconfigured, OnbeError, shown
from onbe_client.flows import Core
from onbe_client.guard.denied import Denied
from onbe_client.guard.keybook import KeyBook
from onbe_client.guard.token import TaskToken, read
from onbe_client.http import run
from onbe_client.keys import AgentKey, KeyLike
from onbe_client.metadata import Metadata, issuer_of
from onbe_client.steps import Answer, Ask, Flow

log = logging.getLogger("onbe_client.guard")

ALGORITHM = "ES256"
HEADER_LENGTH = 4096
METADATA_LIFE = 3600.0


class _Headers(JWSRegistry):
    """The lengths that a token may have here; nothing of a header but `alg`, `kid` and `typ` is looked at."""

    max_header_length = HEADER_LENGTH
    max_payload_length = TOKEN_LENGTH


_REGISTRY = _Headers(algorithms=[ALGORITHM], strict_check_header=False)


class Guard:
    """Checks task tokens of one issuer for one audience, by the issuer's published keys.

    `issuer`, `audience`: exactly as tokens name them. `agent_id` and `key`: the tool server's own registration at
    Onbe, with which it asks about tokens that say `introspect_required`; without it those are refused.
    `introspect_always`: ask about every token, so that a revocation counts at once. `max_depth`: the most agents in a
    token's `act`. `leeway`: seconds by which clocks may differ, at most 60; never beyond the end of a task.
    `fresh`, `stale`, `cooldown`: see KeyBook. `timeout`: seconds for one request to the issuer.

    Raises Misconfigured. Lives in one asyncio event loop.
    """

    def __init__(
        self,
        issuer: str,
        audience: str,
        *,
        agent_id: str | None = None,
        key: KeyLike | AgentKey | None = None,
        introspect_always: bool = False,
        max_depth: int = 5,
        leeway: float = 5.0,
        fresh: float = 300.0,
        stale: float = 3600.0,
        cooldown: float = 30.0,
        timeout: float = 5.0,
        insecure: bool = False,
        http: httpx2.AsyncClient | None = None,
        world: World | None = None,
    ) -> None:
        if not audience:
            raise Misconfigured("audience_missing", "A guard without an audience would take everybody's tokens.")
        if not 0 <= leeway <= 60 or max_depth < 1:
            raise Misconfigured("guard_unfit", "leeway is 0 to 60 seconds, max_depth 1 or more.")
        if (agent_id is None) != (key is None) or (introspect_always and key is None):
            raise Misconfigured("credentials_missing", "To ask Onbe about a token takes an agent_id and its key.")
        self.issuer = issuer_of(issuer, insecure=insecure)
        self.audience = audience
        self._always = introspect_always
        self._max_depth = max_depth
        self._leeway = leeway
        self._timeout = timeout
        self._insecure = insecure
        self._world: World = world or SystemWorld()
        self._http = http or httpx2.AsyncClient()
        self._lent = http is not None
        self._book = KeyBook(fresh, stale, cooldown)
        self._fetch: asyncio.Task[None] | None = None
        self._metadata: Metadata | None = None
        self._metadata_at = 0.0
        self._core: Core | None = None
        if agent_id is not None and key is not None:
            signer = key if isinstance(key, AgentKey) else AgentKey(key)
            self._core = Core(self.issuer, agent_id, signer, self._world, insecure=insecure, timeout=timeout)

    def __repr__(self) -> str:
        return f"Guard({self.issuer!r}, {self.audience!r})"

    async def authorize(self, header: str | None, *scopes: str) -> TaskToken:
        """The token of an `Authorization` header, holding all of these scopes. Raises Denied."""
        if header is None or not header.strip():
            raise self._denied(Denied(None, "no_token", "A bearer token is needed.", scope=scopes))
        kind, _, token = header.strip().partition(" ")
        if kind.lower() != "bearer":
            raise self._denied(Denied(None, "no_token", "A bearer token is needed.", scope=scopes))
        return await self.verify(token.strip(), *scopes)

    async def verify(self, token: str, *scopes: str) -> TaskToken:
        """The token, if it is good here and now and holds all of these scopes. Raises Denied."""
        try:
            found = await self._verified(token)
        except Denied as denied:
            raise self._denied(denied) from None
        if not found.allows(*scopes):
            lacking = Denied("insufficient_scope", "scope", "The token does not hold the scope needed.", scope=scopes)
            raise self._denied(lacking, found)
        if found.introspect_required or self._always:
            try:
                await self._introspected(token, found)
            except Denied as denied:
                raise self._denied(denied, found) from None
        log.debug("allowed: sub %s, act.sub %s", _name(found.subject), _name(found.agent))
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        if self._fetch is not None and not self._fetch.done():
            self._fetch.cancel()
            await asyncio.wait({self._fetch})
        if not self._lent:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _verified(self, token: str) -> TaskToken:
        if not token or len(token) > TOKEN_LENGTH or not token.isascii():
            raise Denied("invalid_token", "malformed", "The token is not one.")
        try:
            parsed = jws.extract_compact(token.encode(), registry=_REGISTRY)
            header: object = parsed.headers()
        except (JoseError, ValueError, TypeError, RecursionError, AttributeError):
            raise Denied("invalid_token", "malformed", "The token is not one.") from None
        if not isinstance(header, dict):
            raise Denied("invalid_token", "malformed", "The token is not one.")
        if header.get("alg") != ALGORITHM:
            raise Denied("invalid_token", "algorithm", f"The token is not signed with {ALGORITHM}.")
        if "crit" in header or "b64" in header or not isinstance(header.get("kid"), str):
            raise Denied("invalid_token", "malformed", "The token is not one.")
        key = await self._key(header["kid"])
        try:
            genuine = jws.validate_compact(parsed, key, registry=_REGISTRY)
        except (JoseError, ValueError, TypeError):
            genuine = False
        if not genuine:
            raise Denied("invalid_token", "signature", "The token's signature is wrong.")
        try:
            claims = Answer(200, body=parsed.payload or b"").document()
        except OnbeError:
            raise Denied("invalid_token", "malformed", "The token is not one.") from None
        return read(
            header,
            claims,
            issuer=self.issuer,
            audience=self.audience,
            now=self._world.now(),
            leeway=self._leeway,
            max_depth=self._max_depth,
        )

    async def _key(self, kid: str) -> Any:
        wish = self._book.wish(kid, self._world.monotonic())
        if wish != "none":
            fetch = self._fetch
            if fetch is None or fetch.done():
                fetch = self._fetch = asyncio.create_task(self._fetched(), name="onbe keys")
            if wish == "now":
                await asyncio.wait({fetch})
        now = self._world.monotonic()
        key = self._book.key(kid, now)
        if key is not None:
            return key
        if not self._book.usable(now) or self._book.failing:
            raise Denied("temporarily_unavailable", "keys_unavailable", "The issuer's keys cannot be had.")
        raise Denied("invalid_token", "key_unknown", "The issuer has no such key.")

    async def _fetched(self) -> None:
        """One look at the issuer's keys, for all who wait."""
        world = self._world
        try:
            self._book.came(await run(self._jwks(), self._http, world), world.monotonic())
        except OnbeError as error:
            self._book.failed(world.monotonic(), world.chance())
            log.warning("the issuer's keys cannot be fetched: %s", error.error)

    def _jwks(self) -> Flow[Mapping[str, Any]]:
        now = self._world.monotonic()
        if self._metadata is None or now - self._metadata_at >= METADATA_LIFE:
            self._metadata = yield from flows.fetch_metadata(self.issuer, self._timeout, insecure=self._insecure)
            self._metadata_at = now
        if self._metadata.jwks_uri is None:
            raise Misconfigured("no_jwks_uri", "The issuer names no keys.")
        answer: Answer = yield Ask(self._metadata.jwks_uri, self._timeout)
        if answer.status != 200:
            self._metadata = None  # it may have moved
            raise failure(answer)
        return answer.document()

    async def _introspected(self, token: str, found: TaskToken) -> None:
        """Ask whether the token is still good. Whoever cannot say has not said yes."""
        if self._core is None:
            raise Denied("temporarily_unavailable", "no_credentials", "This server cannot ask about such tokens.")
        try:
            said = await run(flows.introspect(self._core, token, self._timeout), self._http, self._world)
        except OnbeError as error:
            log.warning("a token could not be asked about: %s (%s)", error.error, error.reason or "no reason")
            raise Denied("temporarily_unavailable", "introspection", "It could not be asked about the token.") from None
        if said["active"] is not True:
            raise Denied("invalid_token", "inactive", "The token was revoked, or its task is over.")
        if any(said.get(name, own) != own for name, own in (("sub", found.subject), ("jti", found.jti))):
            raise Denied("temporarily_unavailable", "introspection", "The answer is about another token.")

    def _denied(self, denied: Denied, found: TaskToken | None = None) -> Denied:
        """Note a denial: of a token that is genuine, whose it is; of any other, nothing it says."""
        if found is None:
            log.info("denied: %s", denied.reason)
        else:
            log.info("denied: %s, sub %s, act.sub %s", denied.reason, _name(found.subject), _name(found.agent))
        return denied


def _name(text: str) -> str:
    """A name as a log line may have it."""
    return shown(text) or "?"
