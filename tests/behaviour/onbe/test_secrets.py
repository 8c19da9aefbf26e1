"""The watch for credentials finds one wherever it comes to stand."""

from __future__ import annotations

import logging

import pytest
import structlog
from tests.behaviour.onbe.secrets import parts, watched
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase

PLACES = (
    "a log line of ours",
    "a log line of a library's",
    "a row",
    "an answer",
    "an error's text",
    "an error's text in our log",
)


@pytest.mark.parametrize("place", PLACES)
async def test_a_credential_that_leaks_is_found(onbe_database: FreshDatabase, clock: FakeClock, place: str) -> None:
    async with world_of(onbe_database, clock) as world:
        await world.register("scribe")
        with watched(world.deps.db, world.http) as watch:
            given = await world.begin("scribe")
            await watch.check()
            leak_to = watch.answers if place == "an answer" else None
            await leak(world, place, given["refresh_token"], leak_to)
            with pytest.raises(AssertionError) as found:
                await watch.check()
    assert given["refresh_token"] not in str(found.value)


async def leak(world: World, place: str, secret: str, answers: list[tuple[str, str]] | None) -> None:
    part = secret[-30:]
    if place == "a log line of ours":
        structlog.get_logger().info("grants.used", grant=part)
    elif place == "a log line of a library's":
        logging.getLogger("httpx2").debug("sent %s", part)
    elif place.startswith("an error's text"):
        try:
            raise ValueError(part)
        except ValueError:
            (structlog.get_logger() if "our" in place else logging.getLogger("asyncio")).exception("failed")
    elif place == "a row":
        await world.sql("INSERT INTO strangers VALUES (%(part)s, now(), 1)", part=part)
    elif answers is not None:
        answers.append(("GET /healthz: 200", f'{{"status": "{part}"}}'))


def test_what_gives_a_credential_away_is_looked_for_too() -> None:
    claims, signature = "c" * 10 + "d" * 30, "s" * 40
    assert parts(f"eyJhbGciOiJFUzI1NiJ9.{claims}.{signature}") == {claims[:20], claims[-20:], "s" * 20}
    assert parts("task_grant_" + "g" * 43) == {"g" * 20}
    assert parts("short") == set()
