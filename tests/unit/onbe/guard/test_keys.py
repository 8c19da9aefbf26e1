"""The issuer's keys: fetched once, kept for a while, and never asked for more than is good for the issuer."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from joserfc.jwk import ECKey
from tests.unit.onbe.client.stage import FakeWorld, issuer_key
from tests.unit.onbe.guard.issuer import Issuer

from onbe_client.errors import BadAnswer
from onbe_client.guard import Denied, Guard
from onbe_client.guard.keybook import keys_of

KEYS = "jwks.json"
DOWN = httpx2.ConnectError("refused")


async def reason_of(guard: Guard, token: str) -> str:
    with pytest.raises(Denied) as denied:
        await guard.verify(token)
    return denied.value.reason


async def test_a_hundred_callers_cause_one_fetch_of_the_keys(guard: Guard, issuer: Issuer) -> None:
    issuer.gate = asyncio.Event()
    token = issuer.token()
    callers = [asyncio.create_task(guard.verify(token)) for _ in range(100)]
    await asyncio.sleep(0)
    issuer.gate.set()
    assert len({found.jti for found in await asyncio.gather(*callers)}) == 1
    assert issuer.count(KEYS) == 1


async def test_a_caller_that_gives_up_does_not_take_the_fetch_from_the_others(guard: Guard, issuer: Issuer) -> None:
    issuer.gate = asyncio.Event()
    first, second = (asyncio.create_task(guard.verify(issuer.token())) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    issuer.gate.set()
    assert (await second).agent == "reports"


async def test_a_flood_of_made_up_key_ids_costs_one_fetch_in_half_a_minute(
    guard: Guard, issuer: Issuer, world: FakeWorld
) -> None:
    await guard.verify(issuer.token())
    for number in range(50):
        assert await reason_of(guard, issuer.token(kid=f"made-up-{number}")) == "key_unknown"
    assert issuer.count(KEYS) == 1
    world.clock.advance(30)
    for number in range(50):
        assert await reason_of(guard, issuer.token(kid=f"made-up-{number}")) == "key_unknown"
    assert issuer.count(KEYS) == 2


async def test_a_new_key_is_found_after_the_cooldown_and_one_taken_away_is_gone(
    guard: Guard, issuer: Issuer, world: FakeWorld
) -> None:
    await guard.verify(issuer.token())
    fresh = ECKey.generate_key("P-256", {"kid": "next"}, private=True)
    issuer.keys = [dict(fresh.as_dict(private=False))]
    world.clock.advance(30)
    assert (await guard.verify(issuer.token(kid="next", key=fresh))).agent == "reports"
    assert await reason_of(guard, issuer.token()) == "key_unknown"


async def test_keys_serve_on_for_an_hour_while_the_issuer_is_away_and_not_longer(
    guard: Guard, issuer: Issuer, world: FakeWorld
) -> None:
    await guard.verify(issuer.token())
    issuer.down = DOWN
    for _ in range(3899):
        world.clock.advance(1)
        assert (await guard.verify(issuer.token())).agent == "reports"
    world.clock.advance(1)
    assert await reason_of(guard, issuer.token()) == "keys_unavailable"
    await asyncio.sleep(0)
    assert issuer.count(".well-known/oauth-authorization-server") + issuer.count(KEYS) < 3900 / 30 + 10
    issuer.down = None
    world.clock.advance(60)
    assert (await guard.verify(issuer.token())).agent == "reports"


async def test_while_the_issuer_is_away_a_key_id_that_may_be_new_is_not_called_wrong(
    guard: Guard, issuer: Issuer, world: FakeWorld
) -> None:
    await guard.verify(issuer.token())
    issuer.down = httpx2.Response(503)
    world.clock.advance(30)
    assert await reason_of(guard, issuer.token(kid="next")) == "keys_unavailable"


@pytest.mark.parametrize(
    "answer",
    [
        DOWN, httpx2.ReadTimeout("slow"), httpx2.Response(500), httpx2.Response(404), httpx2.Response(200, text="<p>"),
        httpx2.Response(302, headers={"location": "https://evil.test/"}), httpx2.Response(200, json=[]),
        httpx2.Response(200, json={"keys": []}), httpx2.Response(200, content=b"[" * 100_000),
        httpx2.Response(200, content=b" " * 300_000),
    ],
)  # fmt: skip
async def test_an_issuer_that_gives_no_keys_opens_nothing_and_is_not_hammered(
    guard: Guard, issuer: Issuer, world: FakeWorld, answer: httpx2.Response | Exception
) -> None:
    issuer.down = answer
    for _ in range(20):
        assert await reason_of(guard, issuer.token()) == "keys_unavailable"
    assert len(issuer.asked) <= 2
    assert not [url for url in issuer.asked if "evil" in url]
    issuer.down = None
    world.clock.advance(1)
    assert (await guard.verify(issuer.token())).agent == "reports"


def test_keys_that_are_not_for_signing_with_es256_are_left_out() -> None:
    good = dict(issuer_key().as_dict(private=False))
    odd: list[object] = [
        {**good, "kid": "enc", "use": "enc"}, {**good, "kid": "alg", "alg": "ES384"}, {**good, "kid": 7},
        dict(issuer_key().as_dict(private=True)) | {"kid": "burnt"}, {"kty": "oct", "k": "AAAA", "kid": "oct"},
        {**good, "kid": "off", "x": good["y"]}, {"kty": "EC", "crv": "P-256", "kid": "none"}, None, "key",
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "rsa"}, {**good, "x": 1, "kid": "number"},
    ]  # fmt: skip
    assert set(keys_of({"keys": [*odd, good]})) == {"issuer-key"}
    none: list[dict[str, object]] = [{}, {"keys": {}}, {"keys": odd}]
    for document in none:
        with pytest.raises(BadAnswer):
            keys_of(document)
