"""What the OpenID driver believes of a provider, and what it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from tests.conformance.signon.provider import CLIENT, ISSUER, SECRET, Provider
from tests.unit.keel.jose.making import honest, part, public, signed

from keel import jose
from keel.testing import FakeClock
from rift.drivers.signon.oidc import COOLDOWN, OidcSignOn
from rift.drivers.signon.protocol import Claim, SignOnRefused, SignOnUnavailable, Way

WAY = Way("https://rift.example/back", "s" * 64, "n" * 64, "v" * 64)
ADA = Claim(ISSUER, "ada-1", "ada@example.org")


@pytest.fixture
def provider(clock: FakeClock) -> Provider:
    return Provider(clock)


async def came_back(provider: Provider, signon: OidcSignOn | None = None, issuer: str | None = None) -> Claim:
    signon = signon or provider.signon()
    return await signon.finish(WAY, provider.code(await signon.start(WAY)), issuer)


@pytest.mark.parametrize(("kind", "alg"), [("P-256", "ES256"), ("rsa-2048", "RS256"), ("Ed25519", "EdDSA")])
async def test_a_token_by_each_algorithm_that_is_taken_is_believed(provider: Provider, kind: str, alg: str) -> None:
    provider.kind, provider.alg = kind, alg
    provider.published = [public(kind)]
    assert await came_back(provider) == ADA


def unsigned(claims: dict[str, Any]) -> str:
    return f"{part({'alg': 'none'})}.{part(claims)}."


def symmetric(claims: dict[str, Any]) -> str:
    """Signed with the public key's text as if it were a secret."""
    import hashlib
    import hmac
    import json

    front = f"{part({'alg': 'HS256', 'kid': 'P-256'})}.{part(claims)}"
    secret = json.dumps(public("P-256")).encode()
    return f"{front}.{jose.encode(hmac.new(secret, front.encode(), hashlib.sha256).digest())}"


def by_another(claims: dict[str, Any]) -> str:
    return signed("P-256+", "ES256", {"alg": "ES256", "kid": "P-256"}, claims)


def another_algorithm(claims: dict[str, Any]) -> str:
    return honest("rsa-2048", "PS256", claims)


@pytest.mark.parametrize(
    "token", [unsigned, symmetric, by_another, another_algorithm, lambda _: None, lambda _: "x.y.z", lambda _: 7],
    ids=["unsigned", "symmetric", "another key", "another algorithm", "none", "nonsense", "a number"],
)  # fmt: skip
async def test_a_token_that_the_provider_has_not_signed_rightly_is_refused(
    provider: Provider, token: Callable[[dict[str, Any]], object]
) -> None:
    provider.token = token
    with pytest.raises(SignOnRefused):
        await came_back(provider)


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"}, {"nonce": None}, {"nonce": 7}, {"nonce": "é"},
        {"iss": "https://evil.example"}, {"iss": None}, {"iss": ISSUER + "/"},
        {"aud": "another"}, {"aud": None}, {"aud": []}, {"aud": [CLIENT, "another"]},
        {"aud": [CLIENT, "another"], "azp": "another"}, {"azp": "another"},
        {"exp": None}, {"exp": "soon"}, {"exp": True}, {"exp": 0}, {"iat": None}, {"iat": 2**40}, {"nbf": 2**40},
        {"sub": None}, {"sub": ""}, {"sub": 7}, {"sub": "x" * 256},
    ],
    ids=str,
)  # fmt: skip
async def test_a_token_for_another_sign_in_client_time_or_nobody_is_refused(
    provider: Provider, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    with pytest.raises(SignOnRefused):
        await came_back(provider)


@pytest.mark.parametrize(("seconds", "good"), [(-350, True), (-370, False), (55, True), (65, False)])
async def test_the_providers_clock_may_be_a_minute_off(
    provider: Provider, clock: FakeClock, seconds: int, good: bool
) -> None:
    now = clock.now().timestamp() + seconds
    provider.claims = {"iat": now, "exp": now + 300}
    if good:
        assert await came_back(provider) == ADA
    else:
        with pytest.raises(SignOnRefused):
            await came_back(provider)


@pytest.mark.parametrize(
    "person",
    [{"email_verified": False}, {"email_verified": None}, {"email_verified": "true"}, {"email_verified": 1},
     {"email": 7}, {"email": ["ada@example.org"]}],
    ids=str,
)  # fmt: skip
async def test_an_address_that_is_not_said_to_be_verified_is_none(provider: Provider, person: dict[str, Any]) -> None:
    provider.claims = person
    assert await came_back(provider) == Claim(ISSUER, "ada-1", None)


async def test_an_address_beside_the_token_is_taken_of_the_same_person_alone(provider: Provider) -> None:
    provider.document = {"userinfo_endpoint": f"{ISSUER}/userinfo"}
    provider.claims = {"email": None, "email_verified": None}
    provider.userinfo = {"sub": "ada-1", "email": "ada@example.org", "email_verified": True}
    assert await came_back(provider) == ADA
    provider.userinfo |= {"sub": "eve-2"}
    with pytest.raises(SignOnRefused):
        await came_back(provider)


async def test_who_says_that_it_names_itself_must_do_so(provider: Provider) -> None:
    provider.document = {"authorization_response_iss_parameter_supported": True}
    signon = provider.signon()
    for issuer in (None, "https://evil.example"):
        with pytest.raises(SignOnRefused):
            await came_back(provider, signon, issuer)
    assert await came_back(provider, signon, ISSUER) == ADA


@pytest.mark.parametrize(
    ("secret", "methods"),
    [(None, None), (SECRET, ["client_secret_post"]), (SECRET, ["client_secret_post", "client_secret_basic"])],
)
async def test_the_client_shows_itself_as_the_provider_wants_it(
    provider: Provider, secret: str | None, methods: list[str] | None
) -> None:
    provider.secret = secret
    provider.document = {"token_endpoint_auth_methods_supported": methods}
    assert await came_back(provider) == ADA


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://evil.example"}, {"issuer": None}, {"issuer": ISSUER + "/"},
        {"authorization_endpoint": None}, {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://id.example.org/token"}, {"token_endpoint": "http://127.0.0.1/token"},
        {"jwks_uri": 7}, {"jwks_uri": "https://[x"}, {"userinfo_endpoint": "ftp://id.example.org"},
    ],
    ids=str,
)  # fmt: skip
async def test_a_discovery_document_that_cannot_be_used_is_not(provider: Provider, document: dict[str, Any]) -> None:
    provider.document = document
    with pytest.raises(SignOnUnavailable):
        await came_back(provider)


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(302, headers={"location": "https://evil.example"}),
        httpx2.Response(500),
        httpx2.Response(200, content=b"[" * 100_000),
        httpx2.Response(200, content=b'{"a": 1, "a": 2}'),
        httpx2.Response(200, content=b" " * 300_000),
        httpx2.Response(200, content=b"\xff"),
        httpx2.Response(200, headers={"content-encoding": "gzip"}, content=b""),
    ],
    ids=["redirect", "fault", "nested", "twice", "long", "bytes", "compressed"],
)
async def test_no_answer_that_is_odd_signs_anybody_in(provider: Provider, path: str, answer: httpx2.Response) -> None:
    provider.override[path] = answer
    with pytest.raises((SignOnUnavailable, SignOnRefused)):
        await came_back(provider)


async def test_documents_are_asked_for_once_and_keys_anew_when_they_have_changed(
    provider: Provider, clock: FakeClock
) -> None:
    signon = provider.signon()
    for _ in range(3):
        await came_back(provider, signon)
    assert provider.asked.count("/.well-known/openid-configuration") == 1
    assert provider.asked.count("/keys") == 1
    provider.kind, provider.published = "P-256+", [public("P-256+")]
    with pytest.raises(SignOnRefused):
        await came_back(provider, signon)
    clock.advance(COOLDOWN)
    assert await came_back(provider, signon) == ADA
    for _ in range(3):
        provider.header = {"kid": "unheard of"}
        with pytest.raises(SignOnRefused):
            await came_back(provider, signon)
    assert provider.asked.count("/keys") == 2
    assert provider.asked.count("/.well-known/openid-configuration") == 1


async def test_no_fault_tells_what_was_sent_or_received(provider: Provider) -> None:
    provider.secret = "another"
    provider.override["/token"] = httpx2.Response(400, json={"error": "invalid_client", "error_description": SECRET})
    with pytest.raises(SignOnRefused) as refused:
        await came_back(provider)
    assert SECRET not in str(refused.value)
    assert WAY.verifier not in str(refused.value)
    assert WAY.nonce not in repr(WAY)
