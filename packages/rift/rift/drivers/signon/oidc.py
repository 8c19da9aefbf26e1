"""An OpenID provider: the code flow with PKCE, and a token of the person's identity that is believed once checked.

Sources: OpenID Connect Core 1.0 (3.1), Discovery 1.0 (4), RFC 7636, RFC 9207, RFC 9700. Each question is bounded in
time and size and follows no redirect (`keel.fetching`); tokens are read by `keel.jose`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx2

from keel import jose
from keel.cached import Cached
from keel.clock import Clock
from keel.db import forbid_in_transaction
from keel.fetching import BadAnswer, NoAnswer, Reply, client_for, fetched
from keel.hosts import is_loopback
from rift.drivers.signon.protocol import Claim, SignOnRefused, SignOnUnavailable, Way

SECONDS = 10.0
"""How long one question may take in all."""
DISCOVERY_SECONDS = 3600.0
KEYS_SECONDS = 300.0
"""For how long the provider's documents are used again."""
COOLDOWN = 10.0
"""Seconds between two looks for a key that is not there."""
SKEW = 60.0
"""How far the provider's clock may be from ours, in seconds."""
ALGORITHMS = frozenset({"RS256", "ES256", "EdDSA"})
KEYS_MOST = 64
SUBJECT_MOST = 255
SCOPE = "openid email"


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """The provider, and what Rift is known by there; `secret` is None of a public client."""

    issuer: str
    client: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Provider:
    """What the provider's discovery document says."""

    authorization: str
    token: str
    jwks: str
    userinfo: str | None
    says_issuer: bool
    """Whether it names itself in what it sends back (RFC 9207)."""
    secret_in_form: bool
    """Whether it takes a client's secret in the form alone."""


class OidcSignOn:
    """One OpenID provider. `connect` makes the client for one question."""

    def __init__(
        self, config: OidcConfig, clock: Clock, connect: Callable[[], httpx2.AsyncClient] | None = None
    ) -> None:
        self._config, self._clock = config, clock
        self._connect = connect or (lambda: client_for(config.issuer, SECONDS, "rift"))
        self._provider = Cached(clock, self._discover, DISCOVERY_SECONDS)
        self._keys = Cached(clock, self._fetch_keys, KEYS_SECONDS)
        self._looked = float("-inf")

    @property
    def issuer(self) -> str:
        """Who the provider is."""
        return self._config.issuer

    async def start(self, way: Way) -> str:
        """The address to send the browser to. Raises SignOnUnavailable."""
        provider = await self._provider.get()
        challenge = jose.encode(hashlib.sha256(way.verifier.encode()).digest())
        asked = {
            "response_type": "code", "client_id": self._config.client, "redirect_uri": way.back, "scope": SCOPE,
            "state": way.state, "nonce": way.nonce, "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        joint = "&" if urlsplit(provider.authorization).query else "?"
        return f"{provider.authorization}{joint}{urlencode(asked)}"

    async def finish(self, way: Way, code: str, issuer: str | None) -> Claim:
        """Whom the code is about. Raises SignOnUnavailable, SignOnRefused."""
        provider = await self._provider.get()
        if issuer != self.issuer and (issuer is not None or provider.says_issuer):
            raise SignOnRefused("what came back is another provider's")
        said = await self._exchange(provider, way, code)
        token, access = said.get("id_token"), said.get("access_token")
        if not isinstance(token, str):
            raise SignOnRefused("the provider gave no id token")
        claims = await self._verified(token)
        subject = self._checked(claims, way)
        if "email" not in claims and provider.userinfo is not None and isinstance(access, str):
            claims = await self._userinfo(provider.userinfo, access, subject)
        email = claims.get("email")
        good = isinstance(email, str) and claims.get("email_verified") is True
        return Claim(self.issuer, subject, email if good else None)

    async def _exchange(self, provider: Provider, way: Way, code: str) -> Mapping[str, Any]:
        client, secret = self._config.client, self._config.secret
        form = {
            "grant_type": "authorization_code", "code": code, "redirect_uri": way.back, "code_verifier": way.verifier,
        }  # fmt: skip
        auth = None
        if secret is None:
            form["client_id"] = client
        elif provider.secret_in_form:
            form |= {"client_id": client, "client_secret": secret}
        else:  # RFC 6749, 2.3.1: both are written as in a form first
            auth = httpx2.BasicAuth(quote(client, safe=""), quote(secret, safe=""))
        reply = await self._ask("POST", provider.token, form=form, auth=auth)
        if reply.status != 200:
            raise SignOnRefused(f"the provider does not take the code: status {reply.status}")
        return _document(reply)

    async def _verified(self, token: str) -> Mapping[str, Any]:
        peek = jose.peek(token)
        if peek is None:
            raise SignOnRefused("the id token is no token that is taken")
        keys = await self._keys.get()
        if peek.kid is not None and not any(key.get("kid") == peek.kid for key in keys):
            keys = await self._newer_keys()
        found = jose.verified(token, keys)
        if not isinstance(found, jose.Jwt):
            raise SignOnRefused(f"the id token is not signed by the provider: {found}")
        if found.header["alg"] not in ALGORITHMS:
            raise SignOnRefused("the id token is signed by an algorithm that is not taken")
        return found.claims

    def _checked(self, claims: Mapping[str, Any], way: Way) -> str:
        """The subject of an id token that is for us, for this sign-in, and for now (OpenID Connect Core, 3.1.3.7)."""
        client, now = self._config.client, self._clock.now().timestamp()
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        nonce, subject = claims.get("nonce"), claims.get("sub")
        if claims.get("iss") != self.issuer:
            raise SignOnRefused("the id token is another issuer's")
        if client not in audiences or claims.get("azp", client) != client:
            raise SignOnRefused("the id token is for another client")
        if len(audiences) > 1 and "azp" not in claims:
            raise SignOnRefused("the id token is for many, and does not say to whom it was given")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), way.nonce.encode()):
            raise SignOnRefused("the id token is of another sign-in")
        if not _number(claims.get("exp")) or claims["exp"] <= now - SKEW:
            raise SignOnRefused("the id token has expired")
        if not _number(claims.get("iat")) or claims["iat"] > now + SKEW:
            raise SignOnRefused("the id token is from the future")
        if "nbf" in claims and (not _number(claims["nbf"]) or claims["nbf"] > now + SKEW):
            raise SignOnRefused("the id token is not good yet")
        if not isinstance(subject, str) or not 0 < len(subject) <= SUBJECT_MOST:
            raise SignOnRefused("the id token names nobody")
        return subject

    async def _userinfo(self, url: str, access: str, subject: str) -> Mapping[str, Any]:
        """What the provider tells of the person beside their token (5.3), if it is of the same person."""
        reply = await self._ask("GET", url, bearer=access)
        if reply.status != 200:
            return {}
        found = _document(reply)
        if found.get("sub") != subject:
            raise SignOnRefused("what the provider tells beside the token is of somebody else")
        return found

    async def _discover(self) -> Provider:
        where = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        reply = await self._ask("GET", where)
        if reply.status != 200:
            raise SignOnUnavailable(f"the provider's discovery document has status {reply.status}")
        said = _document(reply)
        if said.get("issuer") != self.issuer:
            raise SignOnUnavailable("the provider's discovery document is another issuer's")
        methods = said.get("token_endpoint_auth_methods_supported")
        in_form = isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods
        return Provider(
            self._url(said, "authorization_endpoint"), self._url(said, "token_endpoint"), self._url(said, "jwks_uri"),
            self._url(said, "userinfo_endpoint") if "userinfo_endpoint" in said else None,
            said.get("authorization_response_iss_parameter_supported") is True, in_form,
        )  # fmt: skip

    def _url(self, said: Mapping[str, Any], name: str) -> str:
        """An endpoint of the provider's: encrypted, but for one on this machine."""
        url = said.get(name)
        try:
            parts = urlsplit(url) if isinstance(url, str) and url.isascii() and url.isprintable() else None
        except ValueError:
            parts = None
        plain = urlsplit(self.issuer).scheme == "http" and parts is not None and is_loopback(parts.hostname or "")
        if parts is None or not parts.hostname or (parts.scheme != "https" and not (parts.scheme == "http" and plain)):
            raise SignOnUnavailable(f"the provider's discovery document has no {name} that can be used")
        return str(url)

    async def _fetch_keys(self) -> Sequence[Mapping[str, Any]]:
        self._looked = self._clock.monotonic()
        reply = await self._ask("GET", (await self._provider.get()).jwks)
        keys = _document(reply).get("keys") if reply.status == 200 else None
        if not isinstance(keys, list) or len(keys) > KEYS_MOST or not all(isinstance(key, dict) for key in keys):
            raise SignOnUnavailable("the provider publishes no keys that can be used")
        return keys

    async def _newer_keys(self) -> Sequence[Mapping[str, Any]]:
        """The keys anew, as the provider may have changed them; not again and again for a key that there is not."""
        if self._clock.monotonic() - self._looked >= COOLDOWN:
            self._keys = Cached(self._clock, self._fetch_keys, KEYS_SECONDS)
        return await self._keys.get()

    async def _ask(
        self, method: str, url: str, *, form: Mapping[str, str] | None = None,
        auth: httpx2.BasicAuth | None = None, bearer: str | None = None,
    ) -> Reply:  # fmt: skip
        forbid_in_transaction("single sign-on")
        headers = {"Accept": "application/json"}
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        try:
            async with asyncio.timeout(SECONDS), self._connect() as client:
                request = client.build_request(method, url, headers=headers, data=form)
                if auth is not None:
                    request = next(auth.auth_flow(request))
                return await fetched(client, request, "the provider")
        except (NoAnswer, BadAnswer) as error:
            raise SignOnUnavailable(str(error)) from None
        except (TimeoutError, httpx2.InvalidURL, ValueError) as error:
            raise SignOnUnavailable(f"no answer of the provider ({type(error).__name__})") from None


def _document(reply: Reply) -> Mapping[str, Any]:
    try:
        return reply.document()
    except BadAnswer as error:
        raise SignOnUnavailable(str(error)) from None


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
