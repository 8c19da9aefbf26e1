"""A switch and a request in flight, in every order in which they can meet: nothing slips through.

The request is the one or the other side of the switch. Before it, what it gave is ended by the switch; behind it, it
gets nothing. There is no third.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from tests.behaviour.onbe.ends.asking import administrator, settings_with_admin, standing
from tests.behaviour.onbe.ends.meeting import REACHES, Gate, Scene, blocked, locked, scene
from tests.behaviour.onbe.world import World, world_of

from keel.testing import FakeClock, eventually
from keel.testing.plugin import FreshDatabase
from onbe.drivers.sponsors.fake import FakeSponsors

OVER = {"task_revoked", "parent_revoked", "sponsor_blocked"}


@pytest.fixture
def gate(clock: FakeClock) -> Gate:
    return Gate(FakeSponsors(clock, {"ada": "active", "bob": "active"}))


@pytest.fixture
async def place(onbe_database: FreshDatabase, clock: FakeClock, gate: Gate) -> AsyncIterator[World]:
    async with world_of(onbe_database, clock, settings_with_admin(), sponsors=gate) as world:
        yield world


async def nothing_is_left(world: World, here: Scene, request: str, switch: str) -> None:
    """No open task that the switch reaches."""
    reached = "helper" if switch == "kill sub-agent" else "%"
    spared = here.given["task_id"] if switch == "kill sub-agent" else ""
    left = await world.rows(
        "SELECT id FROM tasks WHERE ended_at IS NULL AND agent LIKE %(agent)s AND id <> %(spared)s",
        agent=reached, spared=spared,
    )  # fmt: skip
    assert left == []


def is_refused(answer: httpx2.Response) -> None:
    assert (answer.status_code, answer.json()["error"]) == (400, "access_denied"), answer.text
    assert answer.json()["reason"] in OVER


@pytest.mark.parametrize(("request_kind", "switch"), REACHES)
async def test_a_request_that_waits_for_the_directory_while_the_switch_is_thrown_gets_nothing(
    place: World, gate: Gate, request_kind: str, switch: str
) -> None:
    here = await scene(place)
    gate.opened.clear()
    asking = asyncio.create_task(here.request(request_kind)())
    await eventually(lambda: gate.waiting == 1)
    done = await here.switch(switch)()
    assert done.status_code == 200, done.text
    gate.opened.set()
    is_refused(await asking)
    await nothing_is_left(place, here, request_kind, switch)


@pytest.mark.parametrize("request_kind", ["exchange", "refresh", "delegation"])
async def test_a_block_that_was_lifted_before_the_directory_answered_has_still_come_between(
    place: World, gate: Gate, request_kind: str
) -> None:
    here = await scene(place)
    gate.opened.clear()
    asking = asyncio.create_task(here.request(request_kind)())
    await eventually(lambda: gate.waiting == 1)
    assert (await here.switch("block")()).status_code == 200
    assert (await administrator(place, "DELETE", "/admin/sponsors/ada/block")).status_code == 200
    gate.opened.set()
    is_refused(await asking)
    await nothing_is_left(place, here, request_kind, "block")
    assert (await place.exchange("scribe")).status_code == 200


@pytest.mark.parametrize(("request_kind", "switch"), REACHES)
async def test_a_switch_that_comes_while_a_request_is_being_granted_waits_and_ends_what_it_gave(
    place: World, onbe_database: FreshDatabase, request_kind: str, switch: str
) -> None:
    """The request has its locks and has decided; its record has to wait. The switch comes now."""
    here = await scene(place)
    async with locked(onbe_database, "LOCK TABLE ledger IN SHARE MODE"):
        asking = asyncio.create_task(here.request(request_kind)())
        await blocked(place, 1)
        throwing = asyncio.create_task(here.switch(switch)())
        await blocked(place, 2)
    answer = await asking
    assert answer.status_code == 200, answer.text
    assert (await throwing).status_code == 200
    await nothing_is_left(place, here, request_kind, switch)
    told = await standing(place, answer.json()["access_token"])
    assert told["active"] is False
    assert "revoked_at" in told


@pytest.mark.parametrize(("request_kind", "switch"), REACHES)
async def test_a_request_that_comes_while_a_switch_is_being_thrown_waits_and_gets_nothing(
    place: World, onbe_database: FreshDatabase, request_kind: str, switch: str
) -> None:
    here = await scene(place)
    async with locked(onbe_database, "LOCK TABLE ledger IN SHARE MODE"):
        throwing = asyncio.create_task(here.switch(switch)())
        await blocked(place, 1)
        asking = asyncio.create_task(here.request(request_kind)())
        await blocked(place, 2)
    assert (await throwing).status_code == 200
    is_refused(await asking)
    await nothing_is_left(place, here, request_kind, switch)


async def test_a_person_who_was_never_heard_of_is_fenced_too(place: World, gate: Gate) -> None:
    await scene(place)
    gate.opened.clear()
    asking = asyncio.create_task(place.exchange("scribe", "bob"))
    await eventually(lambda: gate.waiting == 1)
    assert (await administrator(place, "DELETE", "/admin/sponsors/bob/tasks")).status_code == 200
    gate.opened.set()
    is_refused(await asking)
    assert await place.rows("SELECT FROM tasks WHERE sponsor = 'bob'") == []


async def test_a_switch_for_one_holds_up_nobody_else(place: World, onbe_database: FreshDatabase) -> None:
    here = await scene(place)
    async with locked(onbe_database, "SELECT FROM sponsors WHERE key = 'ada' FOR UPDATE"):
        throwing = asyncio.create_task(here.switch("block")())
        await blocked(place, 1)
        assert (await place.exchange("scribe", "bob")).status_code == 200
    assert (await throwing).status_code == 200


EVERYTHING = [("request", kind) for kind in ("exchange", "refresh", "delegation")] + [
    ("switch", kind) for kind in ("block", "kill person", "kill agent", "kill sub-agent", "kill task", "revoke")
]


@pytest.mark.parametrize(("what", "kind"), EVERYTHING)
@pytest.mark.parametrize("room", ["agents", "sponsors", "tasks"])
async def test_whoever_waits_for_a_row_holds_none_that_comes_later_in_the_one_order(
    place: World, onbe_database: FreshDatabase, room: str, what: str, kind: str
) -> None:
    """Agents, people, tasks. What waits for one of these has locked nothing of the rooms behind it."""
    here = await scene(place)
    below = await place.delegate("helper", here.given["access_token"])
    assert below.status_code == 200
    act = here.request(kind) if what == "request" else here.switch(kind)
    rooms = {
        "agents": ("SELECT FROM agents FOR UPDATE", "SELECT FROM sponsors, tasks FOR UPDATE NOWAIT"),
        "sponsors": ("SELECT FROM sponsors FOR UPDATE", "SELECT FROM tasks FOR UPDATE NOWAIT"),
        "tasks": ("SELECT FROM tasks FOR UPDATE", "SELECT"),
    }
    held, behind = rooms[room]
    async with locked(onbe_database, held) as holder:
        acting = asyncio.create_task(act())
        if (room, kind) in WAITS_NOT:
            assert (await acting).status_code == 200
        else:
            await blocked(place, 1)
            await holder.execute(behind)
    assert (await acting).status_code == 200


WAITS_NOT = {
    ("agents", "block"), ("agents", "kill person"), ("agents", "kill task"), ("agents", "revoke"),
    ("tasks", "exchange"),
}  # fmt: skip
"""Switches without an agent wait for no agent's row, and what begins anew waits for no task's."""
