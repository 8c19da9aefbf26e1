"""Keycloak's service account: one token for many callers, renewed in time, and nobody asked about without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from starlette.responses import JSONResponse, Response
from tests.conformance.onbe_sponsors.attacked import Made, failing, making, odd
from tests.conformance.onbe_sponsors.kit import ADA

from keel.testing import FakeClock
from onbe.drivers.sponsors.protocol import Unreachable


@pytest.fixture
async def keycloak(clock: FakeClock) -> AsyncIterator[Made]:
    async with making("keycloak", clock, 5.0) as found:
        yield found


async def test_one_token_of_the_service_account_serves_many_callers(keycloak: Made, clock: FakeClock) -> None:
    await asyncio.gather(*(keycloak.directory.ask(ADA, clock.now()) for _ in range(50)))
    assert keycloak.people.token_requests == 1
    assert len(keycloak.people.questions) == 50


async def test_the_token_is_renewed_shortly_before_its_end(keycloak: Made, clock: FakeClock) -> None:
    await keycloak.directory.ask(ADA, clock.now())
    clock.advance(49)
    await keycloak.directory.ask(ADA, clock.now())
    assert keycloak.people.token_requests == 1
    clock.advance(1)
    clock.set(clock.now() - timedelta(days=1))
    await asyncio.gather(*(keycloak.directory.ask(ADA, clock.now()) for _ in range(20)))
    assert keycloak.people.token_requests == 2, "whatever the wall clock says"


@pytest.mark.parametrize("life", [0, -5, None, "60", True, 10**400, [], 0.5], ids=lambda life: str(life)[:9])
async def test_a_token_of_an_odd_life_serves_its_own_question(keycloak: Made, life: object, clock: FakeClock) -> None:
    keycloak.people.token_life = life
    assert (await keycloak.directory.ask(ADA, clock.now())).state == "active"
    clock.advance(3600)
    assert (await keycloak.directory.ask(ADA, clock.now())).state == "active"


async def test_a_token_that_is_taken_no_more_is_renewed_once_for_all(keycloak: Made, clock: FakeClock) -> None:
    await keycloak.directory.ask(ADA, clock.now())
    keycloak.people.tokens.clear()
    answers = await asyncio.gather(*(keycloak.directory.ask(ADA, clock.now()) for _ in range(30)))
    assert {answer.state for answer in answers} == {"active"}
    assert keycloak.people.token_requests == 2


async def test_a_directory_that_takes_no_token_is_not_asked_without_end(keycloak: Made, clock: FakeClock) -> None:
    keycloak.people.instead = Response(b"", 401)
    assert not odd(await failing(keycloak, clock))
    assert (len(keycloak.people.questions), keycloak.people.token_requests) == (2, 2)


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({"error": "invalid_client", "error_description": "SPILLED"}, 401),
        JSONResponse({"error": "SPILLED"}, 500),
        JSONResponse({"access_token": ""}),
        JSONResponse({"access_token": 7, "expires_in": 60}),
        JSONResponse({"access_token": "a\r\nX: SPILLED", "expires_in": 60}),
        JSONResponse({"access_token": "SPILLED\u00e9", "expires_in": 60}),
        JSONResponse({"expires_in": 60}),
        Response("<html>SPILLED</html>"),
        Response(b""),
        JSONResponse(["SPILLED"]),
    ],
)
async def test_without_a_token_nobody_is_asked_about(keycloak: Made, answer: Response, clock: FakeClock) -> None:
    keycloak.people.instead_of_token = answer
    error = await failing(keycloak, clock)
    assert isinstance(error, Unreachable)
    assert error.anyone
    assert keycloak.people.questions == []


async def test_a_realm_that_is_not_there_is_nobodys_fault(keycloak: Made, clock: FakeClock) -> None:
    keycloak.people.instead = JSONResponse({"error": "Realm not found."}, 404)
    error = await failing(keycloak, clock)
    assert isinstance(error, Unreachable)
    assert error.anyone


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("service-account-scribe", "not_found"), ("Service-Account-x", "not_found"), ("service-account-", "not_found"),
        ("ada", "active"), ("service", "active"), ("my-service-account-x", "active"), (None, "active"), (7, "active"),
    ],
)  # fmt: skip
async def test_a_clients_own_account_is_no_person(keycloak: Made, name: object, state: str, clock: FakeClock) -> None:
    keycloak.people.instead = JSONResponse({"id": ADA, "username": name, "enabled": True})
    assert (await keycloak.directory.ask(ADA, clock.now())).state == state
