"""What a change of a registration does to the agent: from its next request on, also where one is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import httpx2
import pytest
from tests.behaviour.onbe.world import ADMIN_KEY, ISSUER, OTHER_TOOL, TOOL, World, make_key, settings_of_tests, world_of

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.drivers.sponsors.fake import FakeSponsors
from onbe.drivers.sponsors.protocol import Answer
from onbe.serving import web
from onbe.settings import AdminSettings


class HeldUp(FakeSponsors):
    """A directory whose answers wait for `go`."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, {"ada": "active"})
        self.asking, self.go = asyncio.Event(), asyncio.Event()
        self.go.set()

    async def ask(self, sponsor: str, no_older_than: datetime) -> Answer:
        self.asking.set()
        await self.go.wait()
        return await super().ask(sponsor, no_older_than)


@pytest.fixture
def people(clock: FakeClock) -> HeldUp:
    return HeldUp(clock)


@pytest.fixture
async def world(onbe_database: FreshDatabase, clock: FakeClock, people: HeldUp) -> AsyncIterator[World]:
    settings = settings_of_tests().model_copy(update={"admin": AdminSettings(keys=(ADMIN_KEY,))})
    async with world_of(onbe_database, clock, settings, connections=24, sponsors=people) as made:
        yield made


async def admin(world: World, method: str, agent: str = "", **patch: Any) -> httpx2.Response:
    path = f"/admin/agents/{agent}" if agent else "/admin/agents"
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    return await world.http.request(method, path, headers=headers, json=patch or None)


async def registered(world: World, agent: str = "scribe", **more: Any) -> None:
    """Through the API, with a key that the world signs with."""
    key = world.agents[agent] = make_key(kid=f"{agent}-1")
    made = {
        "agent_id": agent, "display_name": agent, "allowed_scopes": ["docs:read", "docs:write"],
        "allowed_audiences": [TOOL], "jwks": {"keys": [key.as_dict(private=False)]},
    }  # fmt: skip
    answer = await admin(world, "POST", **{**made, **more})
    assert answer.status_code == 201, answer.text


def said(answer: httpx2.Response) -> tuple[str | None, str | None]:
    body = answer.json()
    return body.get("error"), body.get("reason")


async def test_a_registration_made_over_http_is_one_that_exchanges(world: World) -> None:
    await registered(world, max_task_ttl="PT22M", max_token_ttl="PT5M", high_risk_audiences=[TOOL])
    given = await world.begin("scribe")
    assert given["expires_in"] == 300
    assert world.claims(given)["introspect_required"] is True


async def test_a_change_holds_from_the_next_request_on(world: World) -> None:
    await registered(world)
    grant = (await world.begin("scribe", scope="docs:read docs:write"))["refresh_token"]
    for patch, expected in (
        ({"max_token_ttl": "PT1M"}, (None, None)),
        ({"allowed_scopes": ["docs:read"]}, ("invalid_scope", None)),
        ({"allowed_scopes": ["docs:read", "docs:write"], "allowed_audiences": [OTHER_TOOL]}, ("invalid_target", None)),
        ({"allowed_audiences": [TOOL], "enabled": False}, ("access_denied", "agent_disabled")),
        ({"enabled": True}, (None, None)),
    ):
        assert (await admin(world, "PATCH", "scribe", **patch)).status_code == 200
        answer = await world.refresh("scribe", grant)
        assert said(answer) == expected, patch
        if answer.status_code == 200:
            assert answer.json()["expires_in"] == 60


async def test_a_key_that_was_replaced_opens_nothing_any_more(world: World) -> None:
    await registered(world)
    grant = (await world.begin("scribe"))["refresh_token"]
    new = make_key(kid="scribe-2")
    await admin(world, "PATCH", "scribe", jwks={"keys": [new.as_dict(private=False)]})
    assert said(await world.refresh("scribe", grant)) == ("invalid_client", None)
    assert said(await world.exchange("scribe")) == ("invalid_client", None)
    world.agents["scribe"] = new
    assert (await world.refresh("scribe", grant)).status_code == 200


@pytest.mark.parametrize("change", ["delete", "disable", "another key", "another scope", "another audience"])
async def test_an_exchange_in_flight_meets_the_change(world: World, people: HeldUp, change: str) -> None:
    """It was authenticated, and asks about the person, while the administrator changes the agent."""
    await registered(world)
    people.go.clear()
    flight = asyncio.create_task(world.exchange("scribe"))
    await people.asking.wait()
    patches: dict[str, dict[str, Any]] = {
        "delete": {},
        "disable": {"enabled": False},
        "another key": {"jwks": {"keys": [make_key().as_dict(private=False)]}},
        "another scope": {"allowed_scopes": ["other"]},
        "another audience": {"allowed_audiences": [OTHER_TOOL]},
    }
    patch = patches[change]
    done = await admin(world, "PATCH" if patch else "DELETE", "scribe", **patch)
    assert done.status_code in (200, 204), done.text
    people.go.set()
    answer = await flight
    assert answer.status_code != 200, answer.text
    assert said(answer)[0] != "server_error", answer.text
    assert await world.rows("SELECT id FROM tasks") == []


async def test_deleting_and_exchanging_at_once_never_leaves_half_of_each(world: World) -> None:
    for round_ in range(10):
        agent = f"scribe-{round_}"
        await registered(world, agent)
        gone, *answers = await asyncio.gather(admin(world, "DELETE", agent), *(world.exchange(agent) for _ in range(4)))
        begun = sum(one.status_code == 200 for one in answers)
        assert {one.status_code for one in answers} <= {200, 401}, [one.text for one in answers]
        tasks = await world.rows("SELECT id FROM tasks WHERE agent = %(agent)s", agent=agent)
        assert len(tasks) == begun
        assert gone.status_code == (409 if begun else 204)


async def test_one_registered_anew_under_an_old_id_inherits_nothing(world: World) -> None:
    await registered(world)
    old = world.agents["scribe"]
    used = world.assertion("scribe")
    assert said(await world.exchange("scribe", "nobody", actor_token=used)) == ("access_denied", "sponsor_not_found")
    assert (await admin(world, "DELETE", "scribe")).status_code == 204
    await registered(world)
    assert said(await world.exchange("scribe", actor_token=world.assertion("scribe", key=old)))[0] == "invalid_client"
    assert said(await world.exchange("scribe", actor_token=used))[0] == "invalid_client"
    assert (await world.exchange("scribe")).status_code == 200


async def test_bounds_that_are_lowered_later_shorten_what_is_given(world: World) -> None:
    await registered(world, max_task_ttl="P1D", max_token_ttl="PT1H")
    agents = world.deps.settings.agents.model_copy(
        update={"max_task_ttl": world.deps.settings.tokens.default_task_ttl,
                "max_token_ttl": world.deps.settings.tokens.default_token_ttl}
    )  # fmt: skip
    deps = replace(world.deps, settings=world.deps.settings.model_copy(update={"agents": agents}))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(web(deps)), base_url=ISSUER) as http:  # another start
        world.http = http
        given = await world.begin("scribe")
        assert given["expires_in"] == 300
        still = (await admin(world, "PATCH", "scribe", display_name="still")).json()
    assert (still["max_task_ttl"], still["max_token_ttl"]) == ("P1D", "PT1H")
