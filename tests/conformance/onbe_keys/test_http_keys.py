"""Keys over HTTP where somebody means ill or something fails: floods, slow and endless answers, private addresses."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from tests.conformance.onbe_keys.asking import PATH, kids, refused
from tests.conformance.onbe_keys.endpoint import Endpoint, serving
from tests.unit.keel.jose.making import public

from keel.testing import FakeClock, eventually
from onbe.drivers.keys import fetch
from onbe.drivers.keys.http import COOLDOWN, FRESH, FRESH_LEAST, FRESH_MOST, KEYS, STALE, HttpKeys
from onbe.drivers.keys.protocol import KeysUnavailable

# Caching


async def test_a_hundred_callers_at_once_are_one_fetch(endpoint: Endpoint, keys: HttpKeys) -> None:
    endpoint.gate.clear()
    callers = [asyncio.create_task(keys.at(endpoint.url + PATH, "P-256")) for _ in range(100)]
    await eventually(lambda: len(endpoint.asked) == 1)
    endpoint.gate.set()
    assert [kids(found) for found in await asyncio.gather(*callers)] == [["P-256"]] * 100
    assert len(endpoint.asked) == 1


async def test_a_caller_who_gives_up_does_not_end_the_fetch_of_the_others(endpoint: Endpoint, keys: HttpKeys) -> None:
    endpoint.gate.clear()
    first, second = (asyncio.create_task(keys.at(endpoint.url + PATH, "P-256")) for _ in range(2))
    await eventually(lambda: len(endpoint.asked) == 1)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    endpoint.gate.set()
    assert kids(await second) == ["P-256"]
    assert len(endpoint.asked) == 1


async def test_a_flood_of_unknown_key_ids_is_one_fetch_in_a_while(
    endpoint: Endpoint, keys: HttpKeys, clock: FakeClock
) -> None:
    url = endpoint.url + PATH
    assert kids(await keys.at(url, "P-256")) == ["P-256"]
    for number in range(300):
        assert list(await keys.at(url, f"unknown {number}")) == []
    assert len(endpoint.asked) == 1
    clock.advance(COOLDOWN)
    flood = [keys.at(url, f"unknown {number}") for number in range(300)]
    assert not any(await asyncio.gather(*flood))
    assert len(endpoint.asked) == 2
    assert kids(await keys.at(url, "P-256")) == ["P-256"]
    assert len(endpoint.asked) == 2


async def test_a_key_that_replaces_another_is_found_by_its_id_at_once(
    endpoint: Endpoint, keys: HttpKeys, clock: FakeClock
) -> None:
    url = endpoint.url + PATH
    await keys.at(url, "P-256")
    clock.advance(COOLDOWN)
    endpoint.says(PATH, {"keys": [public("Ed25519"), public("P-256")]})
    assert kids(await keys.at(url, "Ed25519")) == ["Ed25519"]
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize("control, fresh", [
    (None, FRESH), ("max-age=120", 120), ("public, Max-Age=120, must-revalidate", 120), ("max-age=0", FRESH_LEAST),
    ("no-store", FRESH_LEAST), ("no-cache, max-age=500", FRESH_LEAST), ("max-age=999999999", FRESH_MOST),
    ("max-age=99999999999999999999", FRESH), ("max-age=-5", FRESH), ("max-age=x", FRESH),
])  # fmt: skip
async def test_keys_are_fresh_as_long_as_their_server_says_within_bounds(
    endpoint: Endpoint, keys: HttpKeys, clock: FakeClock, control: str | None, fresh: float
) -> None:
    endpoint.says(PATH, {"keys": [public("P-256")]}, headers={"Cache-Control": control} if control else {})
    url = endpoint.url + PATH
    await keys.at(url, "P-256")
    clock.advance(fresh - 1)
    await keys.at(url, "P-256")
    assert len(endpoint.asked) == 1
    clock.advance(1)
    await keys.at(url, "P-256")
    assert len(endpoint.asked) == 2


async def test_while_the_endpoint_fails_the_keys_of_before_are_good_for_a_bounded_time(
    endpoint: Endpoint, keys: HttpKeys, clock: FakeClock
) -> None:
    url = endpoint.url + PATH
    await keys.at(url, "P-256")
    endpoint.says(PATH, b"", status=500)
    clock.advance(FRESH)
    for _ in range(20):
        assert kids(await keys.at(url, "P-256")) == ["P-256"]
    assert len(endpoint.asked) == 2  # and it is not asked by everybody who comes
    with pytest.raises(KeysUnavailable):  # a key id that is not there may be there now: nobody knows
        await keys.at(url, "other")
    clock.advance(STALE - FRESH - 1)
    assert kids(await keys.at(url, "P-256")) == ["P-256"]
    clock.advance(1)
    for _ in range(20):
        with pytest.raises(KeysUnavailable):
            await keys.at(url, "P-256")
    endpoint.says(PATH, {"keys": [public("P-256")]})
    clock.advance(COOLDOWN)
    assert kids(await keys.at(url, "P-256")) == ["P-256"]


async def test_an_endpoint_that_hangs_holds_up_nobody_who_has_keys_of_before(
    endpoint: Endpoint, keys: HttpKeys, clock: FakeClock
) -> None:
    url = endpoint.url + PATH
    await keys.at(url, "P-256")
    endpoint.gate.clear()
    clock.advance(FRESH)
    callers = [keys.at(url, "P-256") for _ in range(50)]
    async with asyncio.timeout(fetch.SECONDS - 1):
        assert all(kids(found) == ["P-256"] for found in await asyncio.gather(*callers))
    assert len(endpoint.asked) == 2


async def test_an_endpoint_that_is_down_is_tried_once_in_a_while(keys: HttpKeys, clock: FakeClock) -> None:
    async with serving() as gone:
        url = gone.url + PATH
    for _ in range(3):
        with pytest.raises(KeysUnavailable, match="the connection failed"):
            await keys.at(url, "P-256")
    async with serving(port=gone.port) as back:
        back.says(PATH, {"keys": [public("P-256")]})
        with pytest.raises(KeysUnavailable):
            await keys.at(url, "P-256")
        assert back.asked == []
        clock.advance(COOLDOWN)
        assert kids(await keys.at(url, "P-256")) == ["P-256"]


# Answers that mean ill


@pytest.mark.parametrize("status", [201, 204, 301, 302, 303, 307, 308, 304, 401, 404, 429, 500, 503])
async def test_any_status_but_200_is_no_keys_and_no_redirect_is_followed(
    endpoint: Endpoint, keys: HttpKeys, status: int
) -> None:
    endpoint.says("/from", {"keys": [public("P-256")]}, status=status, headers={"Location": endpoint.url + PATH})
    assert str(status) in await refused(keys, f"{endpoint.url}/from")
    assert endpoint.asked == ["/from"]


@pytest.mark.parametrize("body", [
    b"", b"x", b"[]", b"null", b'"keys"', b"{}", b'{"keys":{}}', b'{"keys":null}', b'{"keys":["a"]}', b'{"keys":[[]]}',
    b'{"keys":[],"keys":[]}', b'{"keys":[NaN]}', b'{"keys":[', b"\xff", b'{"keys":' + b"[" * 20_000,
    json.dumps({"keys": [public("P-256", kid=str(number)) for number in range(KEYS + 1)]}).encode(),
])  # fmt: skip
async def test_what_is_no_strict_set_of_few_keys_is_not_taken(endpoint: Endpoint, keys: HttpKeys, body: bytes) -> None:
    endpoint.says(PATH, body)
    told = await refused(keys, endpoint.url + PATH)
    assert told.startswith("127.0.0.1: what it answered is no")


async def test_an_answer_that_is_too_long_is_not_read_to_its_end(endpoint: Endpoint, keys: HttpKeys) -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()
            sent += 65536

    endpoint.does(PATH, endless)
    assert "more than" in await refused(keys, endpoint.url + PATH)
    assert sent < 50_000_000


async def test_a_length_that_is_announced_is_not_believed(endpoint: Endpoint, keys: HttpKeys) -> None:
    endpoint.says(PATH, {"keys": [public("P-256")]}, length=10**12)
    assert "the connection failed" in await refused(keys, endpoint.url + PATH)


async def test_a_compressed_answer_is_not_unpacked(endpoint: Endpoint, keys: HttpKeys) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    endpoint.says(PATH, bomb, headers={"Content-Encoding": "gzip"})
    assert "compressed" in await refused(keys, endpoint.url + PATH)
    assert "accept-encoding: identity" in endpoint.heads[0].lower()


@pytest.mark.parametrize("drip", [b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", b" "])
async def test_an_answer_that_drips_ends_in_time(
    endpoint: Endpoint, keys: HttpKeys, drip: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "SECONDS", 0.5)

    async def dripping(writer: asyncio.StreamWriter) -> None:
        if drip == b" ":
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        elif drip.startswith(b"X"):
            writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(drip if drip != b"HTTP/1.1 200 OK\r\n" else b"H")
            await writer.drain()
            await asyncio.sleep(0.05)

    endpoint.does(PATH, dripping)
    await refused(keys, endpoint.url + PATH)


async def test_what_an_endpoint_answers_is_not_in_the_error(endpoint: Endpoint, keys: HttpKeys) -> None:
    endpoint.says(PATH, b"a-secret-of-somebody", status=500, headers={"Location": "http://a-secret-of-somebody/"})
    assert "a-secret" not in await refused(keys, f"{endpoint.url}{PATH}?token=a-secret")
