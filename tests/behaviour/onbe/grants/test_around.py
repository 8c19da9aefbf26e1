"""What an exchange and a refresh stand on: fresh answers of the directory, the settings of today, the database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
from tests.behaviour.onbe.world import TOOL, World, settings_of_tests, world_of

from keel.testing import FakeClock, eventually
from keel.testing.plugin import Cluster, FreshDatabase
from onbe.settings import AgentSettings, SubjectSettings


async def test_an_exchange_asks_afresh_and_a_refresh_takes_an_answer_no_older_than_it_may(world: World) -> None:
    """30 seconds, or less where the token lives less or little is left; never older than the task."""
    await world.register("scribe", max_task_ttl=timedelta(minutes=2), max_token_ttl=timedelta(seconds=60))
    await world.register("brisk", max_token_ttl=timedelta(seconds=1))  # held up to the least of the settings
    began = world.clock.now()
    given = await world.begin("scribe")
    assert world.sponsors.asked[-1] == ("ada", began)
    for later, no_older_than in ((10, 0), (50, 20), (100, 80), (114, 108)):
        world.clock.set(began + timedelta(seconds=later))
        assert (await world.refresh("scribe", given["refresh_token"])).status_code == 200
        assert world.sponsors.asked[-1] == ("ada", began + timedelta(seconds=no_older_than)), later


async def test_a_lower_maximum_shortens_what_agents_registered_earlier_receive(
    onbe_database: FreshDatabase, clock: FakeClock
) -> None:
    async with world_of(onbe_database, clock) as world:
        key = await world.register("scribe", max_task_ttl=timedelta(hours=9), max_token_ttl=timedelta(minutes=40))
        given = await world.begin("scribe")
        assert given["expires_in"] == 2400
    tight = AgentSettings(max_task_ttl=timedelta(minutes=40), max_token_ttl=timedelta(minutes=7))
    settings = settings_of_tests().model_copy(update={"agents": tight})
    async with world_of(onbe_database, clock, settings) as world:
        world.agents["scribe"] = key
        again = (await world.refresh("scribe", given["refresh_token"])).json()
        assert (again["expires_in"], again["task_expires_at"]) == (420, given["task_expires_at"])
        anew = await world.begin("scribe")
        assert world.claims(anew)["task"]["exp"] == int(clock.now().timestamp()) + 2400


async def test_a_subject_token_of_a_type_that_is_not_taken_is_refused(
    onbe_database: FreshDatabase, clock: FakeClock
) -> None:
    subjects = SubjectSettings(issuer="https://id.example/realms/main", audiences=("onbe",), types=("at+jwt",))
    settings = settings_of_tests().model_copy(update={"subjects": subjects})
    async with world_of(onbe_database, clock, settings) as world:
        await world.register("scribe")
        assert (await world.exchange("scribe")).json()["error"] == "invalid_request"
        assert (await world.ledger())[-1]["outcome"] == "subject_type"
        taken = world.subject("ada", header={"typ": "at+jwt"})
        assert (await world.exchange("scribe", subject_token=taken)).status_code == 200


async def test_a_database_that_is_away_grants_nothing_and_says_to_come_back(
    onbe_database: FreshDatabase, onbe_cluster: Cluster, clock: FakeClock
) -> None:
    async with world_of(onbe_database, clock, connections=1) as world:
        await world.register("scribe")
        given = await world.begin("scribe")
        forms: list[dict[str, Any]] = [
            {"subject_token": world.subject("ada")},
            {"refresh_token": given["refresh_token"]},
            {"actor_token": "x.y.z"},
        ]
        for form in forms:
            assert await world.rows("SELECT 1 AS one")  # there is a connection, and then it is cut
            onbe_cluster.admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (onbe_database.name,)
            )
            await eventually(lambda: not backends(onbe_cluster, onbe_database.name))
            if "refresh_token" in form:
                answer = await world.refresh("scribe", given["refresh_token"])
            else:
                answer = await world.exchange("scribe", **form)
            assert (answer.status_code, answer.json()["error"]) == (503, "temporarily_unavailable")
            assert answer.headers["retry-after"]
        assert len(await world.rows("SELECT id FROM tasks")) == 1
        assert (await world.refresh("scribe", given["refresh_token"])).status_code == 200


async def test_a_person_who_was_blocked_behind_the_servers_back_is_seen_in_the_same_moment(
    world: World, onbe_database: FreshDatabase
) -> None:
    """Whoever writes the block, the locked read of the next request sees it, at an exchange and at a refresh."""
    await world.register("scribe")
    given = await world.begin("scribe")
    with psycopg.connect(onbe_database.owner) as other:
        other.execute("""UPDATE sponsors SET blocks = '{"scim": {"reason": "left"}}'""")
    for answer in (await world.exchange("scribe"), await world.refresh("scribe", given["refresh_token"])):
        assert answer.json()["reason"] == "sponsor_blocked"


async def test_a_high_risk_audience_has_its_tokens_introspected(world: World) -> None:
    await world.register("scribe", high_risk_audiences=[TOOL])
    given = await world.begin("scribe")
    again = (await world.refresh("scribe", given["refresh_token"])).json()
    assert world.claims(given)["introspect_required"] is world.claims(again)["introspect_required"] is True


def backends(cluster: Cluster, database: str) -> int:
    row = cluster.admin.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", (database,)).fetchone()
    assert row is not None
    return int(str(row[0]))
