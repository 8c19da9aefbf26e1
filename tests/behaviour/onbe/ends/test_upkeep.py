"""What is counted is told once, and what need not be remembered is forgotten, among any number of replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.behaviour.onbe.ends.asking import introspect, revoke, settings_with_admin, standing
from tests.behaviour.onbe.wiretap import tapped
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe import names
from onbe.audit import jobs as denials
from onbe.credentials import jobs as credentials


async def knocks(world: World, count: int) -> None:
    """Strangers who would ask after a token."""
    answers = [await world.post({"token": "x", "client_assertion": "nothing",
                                 "client_assertion_type": names.ASSERTION_TYPE}, names.INTROSPECT_PATH)
               for _ in range(count)]  # fmt: skip
    assert {one.status_code for one in answers} == {401}


async def test_of_many_strangers_the_first_is_a_record_and_the_rest_a_number_at_the_windows_end(world: World) -> None:
    await knocks(world, 20)
    world.later(60)
    await knocks(world, 1)
    await denials.tick(world.deps)
    assert await world.ledger("denials.counted") == []
    world.later(61)
    await denials.tick(world.deps)
    (told,) = await world.ledger("denials.counted")
    assert (told["via"], told["outcome"]) == ("sweeper", "assertion_malformed")
    assert told["arguments"] == {"since": "2026-01-02T03:04:00+00:00", "seconds": 60, "more": 19}
    world.later(600)
    await denials.tick(world.deps)
    assert len(await world.ledger("denials.counted")) == 1
    assert await world.rows("SELECT FROM strangers") == []
    assert [row["outcome"] for row in await world.ledger("token.introspect")] == ["assertion_malformed"] * 2


@pytest.mark.parametrize("turn", range(5))
async def test_of_many_replicas_each_window_is_told_by_one(world: World, turn: int) -> None:
    await world.sql(
        "INSERT INTO strangers SELECT 'reason_' || n, %(at)s - n * interval '1 minute', n + 1 "
        "FROM generate_series(1, 300) n",
        at=world.clock.now() - timedelta(minutes=5),
    )
    await asyncio.gather(*(denials.tick(world.deps) for _ in range(6)))
    await denials.tick(world.deps)
    told = await world.ledger("denials.counted")
    assert sorted((row["outcome"], row["arguments"]["more"]) for row in told) == sorted(
        (f"reason_{n}", n) for n in range(1, 301)
    )


async def test_an_assertion_is_remembered_for_as_long_as_any_clock_of_ours_would_take_it(world: World) -> None:
    await world.register("scribe")
    used = world.assertion("scribe")
    given = (await world.exchange("scribe", actor_token=used)).json()
    for _ in range(20):
        world.later(30)
        await credentials.tick(world.deps)
        again = await revoke(world, "scribe", given["refresh_token"], client_assertion=used)
        assert again.status_code == 401
    assert await world.rows("SELECT FROM assertions") == []
    assert await world.ledger("task.revoked") == []


async def test_a_revoked_token_is_remembered_until_it_would_have_expired(world: World) -> None:
    for agent in ("scribe", "tool"):
        await world.register(agent)
    given = await world.begin("scribe")
    await revoke(world, "scribe", given["access_token"])
    left = world.claims(given)["exp"] - world.clock.now().timestamp()
    world.later(left - 1)
    await credentials.tick(world.deps)
    assert "revoked_at" in await standing(world, given["access_token"])
    world.later(120)
    await credentials.tick(world.deps)
    assert await world.rows("SELECT FROM revoked_tokens") == []
    assert await standing(world, given["access_token"]) == {"active": False}


@pytest.fixture
async def alone(onbe_database: FreshDatabase, clock: FakeClock) -> AsyncIterator[World]:
    """A world with one connection, so that what goes over it can be counted."""
    async with world_of(onbe_database, clock, settings_with_admin(), connections=1) as world:
        yield world


async def test_a_question_is_one_statement_in_one_trip(alone: World) -> None:
    for agent in ("scribe", "tool"):
        await alone.register(agent)
    given = await alone.begin("scribe")
    asking = alone.assertion("tool", aud="https://onbe.example/oauth2/introspect")
    for _ in range(6):  # the statement is prepared by then
        await introspect(alone, "tool", given["access_token"], client_assertion=asking)
    async with tapped(alone.deps.db) as wire:
        answer = await introspect(alone, "tool", given["access_token"], client_assertion=asking)
    assert answer.json()["active"] is True
    assert (wire.statements, wire.trips) == (1, 1), " ".join(f"{a}{b}" for a, b in wire.said)
