"""What a directory over HTTP may do to us: whatever it is, it is no yes, it ends in time, and it tells nothing."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.conformance.onbe_sponsors.attacked import KINDS, Made, failing, making, odd
from tests.conformance.onbe_sponsors.kit import ADA, keycloak_at, scim_at
from tests.wire.people import BEARER, REALM, SECRET, People, directory
from tests.wire.serving import served

from keel.testing import FakeClock, eventually
from onbe.drivers.sponsors.fetching import ANSWER_BYTES, client_for
from onbe.drivers.sponsors.protocol import Unreachable

BLINK = 0.25
"""The timeout of those that are made to hang."""


@pytest.fixture(params=list(KINDS))
async def made(request: pytest.FixtureRequest, clock: FakeClock) -> AsyncIterator[Made]:
    async with making(request.param, clock, 5.0) as found:
        yield found


NO_FLAG: tuple[Any, ...] = (
    "true", "True", "TRUE", "False", "false", "", 1, 0, 1.0, None, [], [True], {}, {"value": True}, "yes", "active",
)  # fmt: skip


async def test_only_true_is_a_yes_and_only_false_a_no(made: Made, clock: FakeClock) -> None:
    for value in NO_FLAG:
        made.people.said = {made.flag: value}
        assert odd(await failing(made, clock)), value


async def test_a_person_of_whom_nothing_is_said_is_no_yes(made: Made, clock: FakeClock) -> None:
    person = {"id": ADA, "externalId": ADA, "userName": ADA}
    listed = {"totalResults": 1, "Resources": [person]}
    made.people.instead = JSONResponse(listed if made.kind in ("scim externalId", "scim userName") else person)
    assert odd(await failing(made, clock))


async def test_an_answer_about_another_person_is_none(made: Made, clock: FakeClock) -> None:
    for other in (
        "eve@example.test",
        ADA + " ",
        "",
        None,
        7,
        [ADA],
        {"value": ADA},
        ADA + "\u0000",
        "ada@example.te\u017ft",
    ):
        made.people.said = {made.key: other}
        assert odd(await failing(made, clock)), other
    if made.kind != "scim userName":  # whose letters have no case (RFC 7643, 4.1.1)
        made.people.said = {made.key: ADA.upper()}
        assert odd(await failing(made, clock))


async def test_names_of_members_have_no_case_in_scim_and_a_second_one_is_no_answer(clock: FakeClock) -> None:
    async with making("scim id", clock, 5.0) as made:
        made.people.instead = JSONResponse({"ID": ADA, "Active": True})
        assert (await made.directory.ask(ADA, clock.now())).state == "active"
        made.people.instead = JSONResponse({"id": ADA, "active": False, "ACTIVE": True})
        assert odd(await failing(made, clock))


@pytest.mark.parametrize(
    "page",
    [
        {"totalResults": 2, "Resources": [{"id": ADA, "externalId": ADA, "userName": ADA, "active": True}] * 2},
        {"totalResults": 1, "Resources": []},
        {"totalResults": 0, "Resources": [{"externalId": ADA, "userName": ADA, "active": True}]},
        {"totalResults": True, "Resources": [{"externalId": ADA, "userName": ADA, "active": True}]},
        {"totalResults": False},
        {"totalResults": "0"},
        {"Resources": [{"externalId": ADA, "userName": ADA, "active": True}]},
        {"totalResults": 1, "Resources": [ADA]},
        {"totalResults": 1, "Resources": {"externalId": ADA, "userName": ADA, "active": True}},
        {"totalResults": 7, "Resources": [{"externalId": ADA, "userName": ADA, "active": True}]},
        {"externalId": ADA, "userName": ADA, "active": True},
        {},
    ],
)
@pytest.mark.parametrize("kind", ["scim externalId", "scim userName"])
async def test_a_list_that_is_not_of_one_person_is_no_answer(kind: str, page: Any, clock: FakeClock) -> None:
    async with making(kind, clock, 5.0) as made:
        made.people.instead = JSONResponse(page)
        assert odd(await failing(made, clock))


def yes(made: Made) -> bytes:
    """The body that would be a yes."""
    person = dict.fromkeys(("id", "externalId", "userName"), ADA) | {"enabled": True, "active": True}
    return json.dumps({**person, "totalResults": 1, "Resources": [person]}).encode()


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b" " * 65536
        await asyncio.sleep(0)  # for the server in this loop to see that nobody listens any more


ODD_ANSWERS: dict[str, Callable[[Made], Response]] = {
    "an error page under 200": lambda made: Response("<html>SPILLED</html>", media_type="text/html"),
    "nothing under 200": lambda made: Response(b""),
    "nothing under 204": lambda made: Response(status_code=204),
    "a yes under 203": lambda made: Response(yes(made), 203),
    "a yes under 206": lambda made: Response(yes(made), 206),
    "a yes under 400": lambda made: Response(yes(made), 400),
    "a page under 404": lambda made: Response("<html>SPILLED</html>", 404, media_type="text/html"),
    "true": lambda made: Response(b"true"),
    "null": lambda made: Response(b"null"),
    "a list": lambda made: Response(b"[" + yes(made) + b"]"),
    "a yes, cut": lambda made: Response(yes(made)[:-1]),
    "a yes and more": lambda made: Response(yes(made) + b"{}"),
    "a yes that is no UTF-8": lambda made: Response(yes(made)[:-1] + b', "x": "\xff"}'),
    "a yes in UTF-16": lambda made: Response(yes(made).decode().encode("utf-16")),
    "a yes with a no": lambda made: Response(yes(made)[:-1] + b', "enabled": false, "active": false}'),
    "a no with a yes": lambda made: Response(b'{"enabled": false, "active": false, ' + yes(made)[1:]),
    "a yes with NaN": lambda made: Response(yes(made)[:-1] + b', "x": NaN}'),
    "a yes with a number without end": lambda made: Response(yes(made)[:-1] + b', "x": ' + b"9" * 9999 + b"}"),
    "nested without end": lambda made: Response(b"[" * 200_000),
    "objects nested without end": lambda made: Response(b'{"a":' * 50_000),
    "without end": lambda made: StreamingResponse(endless()),
    "a yes that is too long": lambda made: Response(yes(made) + b" " * ANSWER_BYTES),
    "compressed": lambda made: Response(gzip.compress(yes(made)), headers={"Content-Encoding": "gzip"}),
    "a bomb": lambda made: Response(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}),
}  # fmt: skip


async def test_an_odd_answer_is_no_answer(made: Made, clock: FakeClock) -> None:
    for how, answer in ODD_ANSWERS.items():
        made.people.instead = answer(made)
        assert odd(await failing(made, clock)), how
    made.people.instead = None
    assert (await made.directory.ask(ADA, clock.now())).state == "active", "and the next question is answered"


async def test_a_directory_that_fails_says_no_yes_whatever_it_says(made: Made, clock: FakeClock) -> None:
    for status in (401, 403, 408, 429, 500, 502, 503, 504, 599):
        made.people.instead = Response(yes(made), status)
        assert not odd(await failing(made, clock)), status


async def test_no_redirect_is_followed(made: Made, clock: FakeClock) -> None:
    elsewhere = People({ADA: True})
    async with directory(elsewhere) as address:
        for status in (301, 302, 303, 307, 308):
            made.people.instead = RedirectResponse(f"{address}/latest/meta-data", status)
            assert not odd(await failing(made, clock)), status
            made.people.instead = None
            made.people.instead_of_token = RedirectResponse(f"{address}/realms/{REALM}/token", status)
            made.people.tokens.clear()
            if made.kind == "keycloak":
                await failing(made, clock)
            made.people.instead_of_token = None
    assert elsewhere.questions == []
    assert elsewhere.token_requests == 0


async def dripping() -> AsyncIterator[bytes]:
    while True:
        yield b" "
        await asyncio.sleep(BLINK / 20)


async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def breaking_off(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1000")]})
    await send({"type": "http.response.body", "body": b'{"enabled": true,', "more_body": True})
    raise ConnectionError("a test wants it so")


async def drips(scope: Scope, receive: Receive, send: Send) -> None:
    await StreamingResponse(dripping())(scope, receive, send)


HOW_IT_ENDS: dict[str, ASGIApp] = {"drips": drips, "hangs": hanging, "breaks off": breaking_off}


@pytest.mark.parametrize("kind", ["keycloak", "scim id"])
@pytest.mark.parametrize("how", HOW_IT_ENDS)
async def test_an_answer_that_does_not_end_in_time_is_none(kind: str, how: str, clock: FakeClock) -> None:
    async with making(kind, clock, 5.0) as whole, making(kind, clock, BLINK) as made:
        for one in (whole, made):
            one.people.instead = HOW_IT_ENDS[how]
        assert not odd(await failing(whole if how == "breaks off" else made, clock))


@pytest.mark.parametrize("kind", ["keycloak", "scim id"])
async def test_a_directory_that_is_not_there_fails_for_everybody(kind: str, clock: FakeClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    async with client_for(address, 5.0) as client:
        made = keycloak_at(address, clock, client) if kind == "keycloak" else scim_at(address, clock, client)
        with pytest.raises(Unreachable) as caught:
            await made.ask(ADA, clock.now())
        assert caught.value.anyone


async def test_a_name_stays_one_segment_of_the_path_or_one_value_of_the_filter(made: Made, clock: FakeClock) -> None:
    for name in (
        "../admin",
        "a/../b",
        "a?b",
        "a#b",
        'x" or active eq true or userName eq "',
        "é/..",
        "%2e%2e%2f",
        "a&b",
    ):
        made.people.questions.clear()
        assert (await made.directory.ask(name, clock.now())).state == "not_found"
        (asked,) = made.people.questions
        path, _, query = asked.partition("?")
        if made.kind == "keycloak":
            assert path.startswith(f"/admin/realms/{REALM}/users/")
            assert path.count("/") == 5
        elif made.kind == "scim id":
            assert path.startswith("/scim/v2/Users/")
            assert path.count("/") == 4
        else:
            assert path == "/scim/v2/Users"
            assert query.count("&") == 2
        assert (query == "") == (made.key == "id")


async def test_nothing_secret_is_logged(made: Made, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await made.directory.ask(ADA, clock.now())
        made.people.instead = Response(b"SPILLED", 500)
        await failing(made, clock)
    logged = "\n".join(f"{record.getMessage()} {record.args}" for record in caplog.records)
    for secret in (SECRET, "s3cret", BEARER, "SPILLED", *made.people.tokens):
        assert secret not in logged
    assert SECRET not in repr(made.directory)


async def test_a_question_that_was_given_up_leaves_no_connection_open(clock: FakeClock) -> None:
    open_now = 0

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal open_now
        if scope["type"] == "lifespan":
            await People()(scope, receive, send)
            return
        open_now += 1
        await hanging(scope, receive, send)
        open_now -= 1

    async with served(counting) as address, client_for(address, 5.0) as client:
        asking = asyncio.create_task(scim_at(address, clock, client, seconds=60).ask(ADA, clock.now()))
        await eventually(lambda: open_now == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await eventually(lambda: open_now == 0)
