"""What every carrier does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from tests.conformance.carrier.conftest import HttpKit, Kit

from keel import db
from keel.testing import eventually
from rift.drivers.carrier.http import HttpCarrier
from rift.drivers.carrier.protocol import CarrierError


async def parts(*given: bytes) -> AsyncIterator[bytes]:
    for one in given:
        yield one


async def test_a_request_arrives_as_it_was_given_and_its_answer_comes_back_as_it_was(kit: Kit) -> None:
    body = bytes(range(256)) * 1000
    kit.origin.status, kit.origin.headers, kit.origin.body = 207, {"X-Said": "yes"}, body
    given = {"Authorization": "Basic abc", "X-Asked": "yes"}
    async with kit.carrier.carry("PUT", f"{kit.url}/a/b?c=d", given, parts(b"one", b"two")) as carried:
        answer = b"".join([part async for part in carried.parts])
    assert (carried.status, carried.headers["x-said"], answer) == (207, "yes", body)
    ((method, path, headers, sent),) = kit.origin.asked
    assert (method, path, sent) == ("PUT", "/a/b?c=d", b"onetwo")
    assert (headers["authorization"], headers["x-asked"]) == ("Basic abc", "yes")


async def test_a_request_without_a_body_has_none(kit: Kit) -> None:
    async with kit.carrier.carry("GET", f"{kit.url}/", {}) as carried:
        assert [part async for part in carried.parts] == []
    assert kit.origin.asked[0][3] == b""


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(kit: Kit, status: int) -> None:
    kit.origin.status, kit.origin.headers = status, {"Location": f"{kit.url}/elsewhere"}
    async with kit.carrier.carry("GET", f"{kit.url}/", {"Authorization": "Basic abc"}) as carried:
        assert (carried.status, carried.headers["location"]) == (status, f"{kit.url}/elsewhere")
    assert len(kit.origin.asked) == 1


async def test_packed_bytes_come_as_they_are(kit: Kit) -> None:
    kit.origin.headers, kit.origin.body = {"Content-Encoding": "gzip"}, b"no gzip at all"
    async with kit.carrier.carry("GET", f"{kit.url}/", {}) as carried:
        assert b"".join([part async for part in carried.parts]) == b"no gzip at all"


async def test_an_origin_that_is_not_there_is_told_without_what_was_sent(kit: Kit) -> None:
    with pytest.raises(CarrierError) as raised:
        async with kit.carrier.carry("GET", f"{kit.nowhere}/secret-path?token=abc", {"Authorization": "Basic abc"}):
            pass
    assert "could not be asked" in raised.value.reason
    assert "secret-path" not in raised.value.reason
    assert "abc" not in raised.value.reason


async def test_a_cookie_that_one_request_was_given_goes_with_no_other(kit: Kit) -> None:
    kit.origin.headers = {"Set-Cookie": "who=ada; Path=/"}
    for _ in range(2):
        async with kit.carrier.carry("GET", f"{kit.url}/", {}) as carried:
            assert carried.status == 200
    assert [headers.get("cookie") for _, _, headers, _ in kit.origin.asked] == [None, None]


async def test_an_address_that_somebody_else_chose_is_of_the_open_internet_or_not_asked(kit: Kit) -> None:
    kit.be_private()
    with pytest.raises(CarrierError, match="not of the public internet"):
        async with kit.carrier.carry("GET", f"{kit.url}/", {}, outside=True):
            pass
    assert kit.origin.asked == []
    async with kit.carrier.carry("GET", f"{kit.url}/", {}) as carried:
        assert carried.status == 200


@pytest.mark.parametrize(
    ("found", "reach", "asked"),
    [
        (["127.0.0.1"], ["127.0.0.0/8"], True), (["8.8.8.8"], [], True), (["8.8.8.8", "10.0.0.1"], [], False),
        (["fd00:ec2::254"], ["10.0.0.0/8"], False), (["nonsense"], [], False), ([], [], True),
    ],
)  # fmt: skip
async def test_every_address_of_a_name_counts_and_opened_networks_are_open(
    http: HttpKit, found: list[str], reach: list[str], asked: bool
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        if not found:
            raise OSError("no such name")
        return found

    carrier = HttpCarrier(reach, resolve)
    with contextlib.nullcontext() if asked else pytest.raises(CarrierError, match="not of the public internet"):
        async with carrier.carry("GET", f"{http.url}/", {}, outside=True):
            pass
    assert len(http.origin.asked) == asked


async def test_what_the_body_raises_comes_out_as_it_is(kit: Kit) -> None:
    class Trouble(Exception):
        pass

    async def broken() -> AsyncIterator[bytes]:
        yield b"one"
        raise Trouble

    with pytest.raises(Trouble):
        async with kit.carrier.carry("POST", f"{kit.url}/", {}, broken()):
            pass
    assert kit.origin.asked == [], "half a request is none"


async def test_an_answer_may_be_left_unread_and_the_next_request_is_answered(kit: Kit) -> None:
    kit.origin.body = b"x" * 5_000_000
    for _ in range(3):
        async with kit.carrier.carry("GET", f"{kit.url}/", {}) as carried:
            assert carried.status == 200
    async with kit.carrier.carry("GET", f"{kit.url}/", {}) as carried:
        assert len(b"".join([part async for part in carried.parts])) == 5_000_000


async def test_whoever_does_not_want_to_wait_for_an_answer_any_more_goes_away(kit: Kit) -> None:
    kit.hush()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), kit.carrier.carry("POST", f"{kit.url}/", {}, parts(b"one")):
            raise AssertionError("it answered")


async def test_nothing_is_carried_inside_a_transaction(kit: Kit) -> None:
    inside = db._inside.set(True)
    try:
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            async with kit.carrier.carry("GET", f"{kit.url}/", {}):
                pass
    finally:
        db._inside.reset(inside)
    assert kit.origin.asked == []


async def test_a_request_that_is_left_is_broken_off_at_the_origin(http: HttpKit) -> None:
    http.hush()
    asked = asyncio.create_task(_carry(http))
    await eventually(lambda: http.origin.asked)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    async with asyncio.timeout(10):
        await http.gone.wait()


async def _carry(http: HttpKit) -> None:
    async with http.carrier.carry("POST", f"{http.url}/", {}, parts(b"one")):
        pass


async def test_a_length_that_is_told_is_the_bodys_and_else_it_comes_in_chunks(http: HttpKit) -> None:
    for headers, told in (({"Content-Length": "3"}, "content-length"), ({}, "transfer-encoding")):
        async with http.carrier.carry("PUT", f"{http.url}/", headers, parts(b"one")):
            pass
        assert told in http.origin.asked[-1][2]
        assert http.origin.asked[-1][3] == b"one"
