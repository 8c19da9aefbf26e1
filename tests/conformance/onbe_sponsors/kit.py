"""Every directory of people, each with the same handles on whom it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import httpx2
from starlette.responses import PlainTextResponse
from tests.wire.people import BEARER, CLIENT, REALM, SECRET, People, directory

from keel.clock import Clock
from keel.testing import FakeClock, FakeIds
from onbe import app
from onbe.drivers.development.issuer import OwnIssuer
from onbe.drivers.sponsors.cached import CachedDirectory
from onbe.drivers.sponsors.circuit import CircuitBreaker
from onbe.drivers.sponsors.development import DevelopmentDirectory
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.drivers.sponsors.fetching import client_for
from onbe.drivers.sponsors.keycloak import KeycloakDirectory, Service
from onbe.drivers.sponsors.protocol import CannotAnswer, SponsorDirectory
from onbe.drivers.sponsors.scim import Lookup, ScimDirectory
from onbe.settings import OnbeSettings

ADA = "ada@example.test"
SECONDS = 1.0


@dataclass(frozen=True)
class Kit:
    """A directory, and what a test does to it."""

    directory: SponsorDirectory
    put: Callable[[str, bool | None], None]
    """Make a person active, disabled, or unknown (None)."""
    break_it: Callable[[bool], None]
    """Let it fail, or work again."""


Making = Callable[[FakeClock], AbstractAsyncContextManager[Kit]]


@asynccontextmanager
async def fake(clock: FakeClock) -> AsyncIterator[Kit]:
    people = FakeSponsors(clock)

    def put(person: str, active: bool | None) -> None:
        people.states[person] = "not_found" if active is None else "active" if active else "disabled"

    def break_it(broken: bool) -> None:
        people.trouble = CannotAnswer("a test wants it so") if broken else None

    yield Kit(people, put, break_it)


@asynccontextmanager
async def development(clock: FakeClock) -> AsyncIterator[Kit]:
    own = OwnIssuer("http://127.0.0.1:7434/development", clock, FakeIds(), ADA)

    def put(person: str, active: bool | None) -> None:
        if active is not None:
            own.enable(active)

    yield Kit(DevelopmentDirectory(own, clock), put, lambda broken: None)


def kit_of(people: People, made: SponsorDirectory) -> Kit:
    """A kit whose people are those of the stand-in."""

    def put(person: str, active: bool | None) -> None:
        people.states.pop(person, None)
        if active is not None:
            people.states[person] = active

    def break_it(broken: bool) -> None:
        people.instead = PlainTextResponse("out of order", 502) if broken else None

    return Kit(made, put, break_it)


def keycloak_at(address: str, clock: Clock, client: httpx2.AsyncClient, seconds: float = SECONDS) -> KeycloakDirectory:
    return KeycloakDirectory(address, Service(REALM, CLIENT, SECRET), clock, client, seconds)


def scim_at(
    address: str, clock: Clock, client: httpx2.AsyncClient, lookup: Lookup = "id", seconds: float = SECONDS
) -> ScimDirectory:
    return ScimDirectory(f"{address}/scim/v2", BEARER, lookup, clock, client, seconds)


@asynccontextmanager
async def keycloak(clock: FakeClock) -> AsyncIterator[Kit]:
    people = People()
    async with directory(people) as address, client_for(address, SECONDS) as client:
        yield kit_of(people, keycloak_at(address, clock, client))


def scim(lookup: Lookup) -> Making:
    @asynccontextmanager
    async def made(clock: FakeClock) -> AsyncIterator[Kit]:
        people = People()
        async with directory(people) as address, client_for(address, SECONDS) as client:
            yield kit_of(people, scim_at(address, clock, client, lookup))

    return made


@asynccontextmanager
async def behind_walls(clock: FakeClock) -> AsyncIterator[Kit]:
    people = FakeSponsors(clock)

    def put(person: str, active: bool | None) -> None:
        people.states[person] = "not_found" if active is None else "active" if active else "disabled"

    def break_it(broken: bool) -> None:
        people.trouble = CannotAnswer("a test wants it so") if broken else None

    yield Kit(CachedDirectory(CircuitBreaker(people, clock), clock), put, break_it)


@asynccontextmanager
async def as_configured(clock: FakeClock) -> AsyncIterator[Kit]:
    people = People()
    async with directory(people) as address:
        settings = OnbeSettings.model_validate(
            {
                "subjects": {"issuer": "https://id.example.com", "audiences": ("onbe",)},
                "sponsor_check": {
                    "provider": "keycloak", "url": address, "realm": REALM, "client_id": CLIENT,
                    "client_secret": SECRET,
                },
            }
        )  # fmt: skip
        async with app.people(settings, clock, None) as made:
            yield kit_of(people, made)


MAKINGS: dict[str, Making] = {
    "fake": fake,
    "development": development,
    "keycloak": keycloak,
    "scim by id": scim("id"),
    "scim by externalId": scim("externalId"),
    "scim by userName": scim("userName"),
    "cache and circuit": behind_walls,
    "as app.py makes it": as_configured,
}
REAL = [name for name in MAKINGS if name != "development"]
"""Those that hold anybody, and can fail: the development issuer's has one person, inside the process."""
