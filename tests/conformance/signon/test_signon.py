"""Every driver of signing in elsewhere keeps its protocol: the OpenID one and the fake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.conformance.signon.provider import ISSUER, Provider

from keel.db import Database
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.drivers.signon.fake import FakeSignOn
from rift.drivers.signon.protocol import Claim, SignOn, SignOnRefused, SignOnUnavailable, Way

WAY = Way("https://rift.example/back", "s" * 64, "n" * 64, "v" * 64)
OTHER = Way("https://rift.example/back", "t" * 64, "m" * 64, "w" * 64)
ADA = Claim(ISSUER, "ada-1", "ada@example.org")


class Place:
    """A driver, how Ada signs in there, and how to have it away."""

    def __init__(self, signon: SignOn, code: Callable[[str], str], away: Callable[[], None]) -> None:
        self.signon, self.code, self.away = signon, code, away


@pytest.fixture(params=["openid", "fake"])
def place(request: pytest.FixtureRequest, clock: FakeClock) -> Place:
    if request.param == "openid":
        provider = Provider(clock)
        return Place(provider.signon(), provider.code, lambda: setattr(provider, "document", {"issuer": "other"}))
    fake = FakeSignOn(ISSUER)
    fake.people["ada"] = ADA
    return Place(
        fake,
        lambda url: fake.code("ada", parse_qs(urlsplit(url).query)["state"][0]),
        lambda: setattr(fake, "down", True),
    )


async def test_a_code_says_once_who_has_signed_in(place: Place) -> None:
    url = await place.signon.start(WAY)
    asked = parse_qs(urlsplit(url).query)
    assert asked["state"] == [WAY.state]
    assert asked["redirect_uri"] == [WAY.back]
    code = place.code(url)
    assert await place.signon.finish(WAY, code, ISSUER) == ADA
    with pytest.raises(SignOnRefused):
        await place.signon.finish(WAY, code, ISSUER)
    assert await place.signon.finish(WAY, place.code(await place.signon.start(WAY)), None) == ADA


async def test_a_code_is_good_on_its_own_way_alone(place: Place) -> None:
    theirs = place.code(await place.signon.start(OTHER))
    with pytest.raises(SignOnRefused):
        await place.signon.finish(WAY, theirs, None)
    mine = place.code(await place.signon.start(WAY))
    with pytest.raises(SignOnRefused):
        await place.signon.finish(replace(WAY, nonce=OTHER.nonce), mine, None)
    with pytest.raises(SignOnRefused):
        await place.signon.finish(WAY, "a guess", None)


async def test_what_another_provider_sent_back_is_not_taken(place: Place) -> None:
    code = place.code(await place.signon.start(WAY))
    with pytest.raises(SignOnRefused):
        await place.signon.finish(WAY, code, "https://evil.example")


async def test_a_provider_that_is_away_is_said_to_be(place: Place) -> None:
    place.away()
    with pytest.raises(SignOnUnavailable):
        await place.signon.start(WAY)


async def test_nobody_is_asked_inside_a_transaction(place: Place, database: FreshDatabase) -> None:
    async with Database(database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await place.signon.start(WAY)
