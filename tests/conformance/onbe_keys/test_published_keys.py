"""What every PublishedKeys does: one suite, over HTTP from a real server and over the fake."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.conformance.onbe_keys.endpoint import serving
from tests.unit.keel.jose.making import public

from keel.db import Database
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.drivers.keys.fake import FakeKeys
from onbe.drivers.keys.http import HttpKeys
from onbe.drivers.keys.protocol import KeysUnavailable, PublishedKeys
from onbe.settings import DevelopmentSettings, OnbeSettings

Jwk = dict[str, Any]


@dataclass(frozen=True)
class Under:
    """A driver under test: where keys are, and how they are published there."""

    keys: PublishedKeys
    uri: str
    issuer: str
    publish: Callable[[Iterable[Jwk]], None]
    later: Callable[[], None]
    """Time passes, so that nothing is fresh any more."""


@pytest.fixture(params=["http", "fake"])
async def under(request: pytest.FixtureRequest) -> AsyncIterator[Under]:
    if request.param == "fake":
        fake = FakeKeys()
        uri, issuer = "https://agent.example.com/jwks", "https://id.example.com"
        yield Under(fake, uri, issuer, lambda keys: fake.publish(keys, uri=uri, issuer=issuer), lambda: None)
        return
    clock = FakeClock()
    settings = OnbeSettings(development=DevelopmentSettings(enabled=True))
    async with serving() as endpoint, HttpKeys(settings, clock) as keys:
        issuer = f"{endpoint.url}/realms/main"

        def publish(jwks: Iterable[Jwk]) -> None:
            endpoint.says("/jwks", {"keys": list(jwks)})
            document = {"issuer": issuer, "jwks_uri": f"{endpoint.url}/jwks"}
            endpoint.says("/realms/main/.well-known/openid-configuration", document)

        yield Under(keys, f"{endpoint.url}/jwks", issuer, publish, lambda: void(clock.advance(1000)))


def void(value: object) -> None:
    """Nothing of a value."""


def kids(keys: Iterable[Any]) -> list[str]:
    return [key["kid"] for key in keys]


async def test_the_keys_of_an_id_are_given_and_without_one_all(under: Under) -> None:
    under.publish([public("P-256"), public("Ed25519")])
    assert kids(await under.keys.at(under.uri, "P-256")) == ["P-256"]
    assert kids(await under.keys.at(under.uri, None)) == ["P-256", "Ed25519"]
    assert kids(await under.keys.of_issuer(under.issuer, "Ed25519")) == ["Ed25519"]
    assert kids(await under.keys.of_issuer(under.issuer, None)) == ["P-256", "Ed25519"]


async def test_an_id_that_is_not_there_has_no_keys(under: Under) -> None:
    under.publish([public("P-256")])
    assert list(await under.keys.at(under.uri, "other")) == []
    assert list(await under.keys.of_issuer(under.issuer, "other")) == []


async def test_keys_that_are_for_something_else_are_left_out(under: Under) -> None:
    odd = [{"kty": "oct", "k": "c2VjcmV0", "kid": "a"}, public("P-384"), {"kty": "new", "kid": "b"}, {},
           public("P-256+", d="AAAA"), public("rsa-2048", use="enc")]  # fmt: skip
    under.publish([*odd, public("P-256")])
    assert kids(await under.keys.at(under.uri, None)) == ["P-256"]


async def test_where_nothing_is_published_the_keys_are_unavailable(under: Under) -> None:
    with pytest.raises(KeysUnavailable):
        await under.keys.at(under.uri, "P-256")
    with pytest.raises(KeysUnavailable):
        await under.keys.of_issuer(under.issuer, "P-256")


async def test_a_key_that_was_taken_away_is_gone_when_it_is_looked_for_again(under: Under) -> None:
    under.publish([public("P-256")])
    assert kids(await under.keys.at(under.uri, "P-256")) == ["P-256"]
    under.publish([public("P-256+")])
    under.later()
    assert kids(await under.keys.at(under.uri, "P-256")) == []
    assert kids(await under.keys.at(under.uri, "P-256+")) == ["P-256+"]


async def test_keys_are_never_looked_for_inside_a_transaction(under: Under, onbe_database: FreshDatabase) -> None:
    under.publish([public("P-256")])
    async with Database(onbe_database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError):
            await under.keys.at(under.uri, None)
        with pytest.raises(RuntimeError):
            await under.keys.of_issuer(under.issuer, None)
