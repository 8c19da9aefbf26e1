"""Repositories that are covered: read once they are watched, and left alone while GitHub does not give them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.behaviour.coverage.covering import HEAD, Covering, address
from tests.unit.people.house import act

from keel.refusal import Refusal
from rift.drivers.forge.protocol import Access
from rift.environments import actions as environments
from rift.environments import jobs as building
from rift.origins import actions as origins
from rift.origins import jobs
from rift.repos import actions as repos
from rift.repos.model import Watched


async def test_a_watched_repository_that_github_does_not_give_says_why_and_is_left_alone_for_a_while(
    acme: Covering,
) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    deps, github, clock = acme.hub.deps, acme.hub.github, acme.hub.clock
    repo = (await acme.rows())[app.id]["id"]
    clock.advance(3600)  # no token is kept that long
    github.busy_until = clock.now() + timedelta(minutes=20)
    synced = await origins.sync_repo(deps, repo)
    assert synced is not None
    assert "asked too often" in str(synced.failure)
    assert "It is read again at " in str(synced.failure)

    async def due() -> bool:
        async with deps.db.tx() as tx:
            await tx.run("DELETE FROM procrastinate_jobs")
        await jobs.poll(deps)
        return bool(await acme.jobs())

    clock.advance(19 * 60)
    assert not await due()
    clock.advance(2 * 60)
    assert await due()
    acme.forge.broken[address(app)] = "Repository not found"
    synced = await origins.sync_repo(deps, repo)
    assert synced is not None
    assert "Repository not found" in str(synced.failure)


async def test_an_environment_that_github_gives_no_token_for_says_why_and_is_tried_after_a_rest(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    deps, repo = acme.hub.deps, (await acme.rows())[app.id]["id"]
    await origins.sync_repo(deps, repo)
    acme.hub.clock.advance(3600)  # no token is kept that long
    acme.hub.github.down = True
    async with deps.db.tx() as tx:
        await environments.want(tx, deps, repo, HEAD)
    await building.build(deps, repo)
    async with deps.db.tx() as tx:
        found = await environments.of_head(tx, repo, HEAD)
    assert found is not None
    assert (found.state, found.failure, found.stays, found.epoch) == (
        "failed",
        "GitHub cannot be reached (ConnectError)",
        False,
        1,
    )


async def test_nothing_is_built_for_a_repository_that_may_give_no_boxes_until_it_may_again(acme: Covering) -> None:
    (app,) = acme.covers("app")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    deps, repo = acme.hub.deps, (await acme.rows())[app.id]["id"]
    await origins.sync_repo(deps, repo)

    async def built(**columns: bool) -> str:
        """What becomes of the head's environment, wanted before the repository's rows change so."""
        async with deps.db.tx() as tx:
            await environments.want(tx, deps, repo, HEAD)
        for name, value in columns.items():
            await acme.hub.rows(f"UPDATE github_accounts SET {name} = {value} RETURNING 1")
        await building.build(deps, repo)
        async with deps.db.tx() as tx:
            found = await environments.of_head(tx, repo, HEAD)
        assert found is not None
        return found.state

    assert await built(enabled=False) == "cancelled"
    acme.drops(app)
    await acme.cover()
    assert await built(enabled=True) == "cancelled"
    acme.hub.github.covered[acme.there.id].append(app)
    await acme.cover()
    assert acme.forge.gathered == []
    assert await built() == "ready"


async def test_only_watched_repositories_are_polled_and_as_often_as_is_set(acme: Covering) -> None:
    deps, clock = acme.hub.deps, acme.hub.clock
    app, _ = acme.covers("app", "lib")
    await acme.cover()
    await jobs.poll(deps)
    assert await acme.jobs() == []
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    async with deps.db.tx() as tx:
        await tx.run("DELETE FROM procrastinate_jobs")
    clock.advance(deps.settings.github.poll_every - timedelta(seconds=5))
    await jobs.poll(deps)
    assert await acme.jobs() == []
    clock.advance(5)
    await jobs.poll(deps)
    assert await acme.jobs() == [("origins.sync", {"repo": (await acme.rows())[app.id]["id"]})]


async def test_a_name_that_another_repository_has_taken_leads_to_nothing_of_that_one(acme: Covering) -> None:
    deps, (app,) = acme.hub.deps, acme.covers("app")
    await acme.cover()
    assert isinstance(await acme.watch("acme-inc/app"), Watched)
    id = (await acme.rows())[app.id]["id"]
    async with deps.db.tx() as tx:
        await tx.run("DELETE FROM procrastinate_jobs")
    old = acme.becomes(app, name="app-old")
    (new,) = acme.covers("app")
    acme.forge.repositories[address(new)] = {"main": "e" * 40}

    synced = await origins.sync_repo(deps, id)
    assert synced is not None
    assert synced.failure is not None
    assert "another repository at GitHub" in synced.failure
    assert synced.changes == ()
    assert await acme.jobs() == [("coverage.cover", {"installation": acme.there.id})]
    assert not any("e" * 40 in one.commits for one in acme.forge.mirrors.values())

    await acme.cover()
    assert (await acme.rows())[old.id]["full"] == "acme-inc/app-old"
    synced = await origins.sync_repo(deps, id)
    assert synced is not None
    assert synced.failure is None


async def test_a_large_repository_is_read_on_and_the_call_says_to_come_back(
    acme: Covering, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme.covers("app")
    await acme.cover()
    monkeypatch.setattr(origins, "LOOK_AHEAD_SECONDS", 0.2)
    gate, fetch = asyncio.Event(), acme.forge.fetch

    async def slow(url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        await gate.wait()
        return await fetch(url, mirror, access)

    monkeypatch.setattr(acme.forge, "fetch", slow)
    refused = await acme.watch("acme-inc/app")
    assert isinstance(refused, Refusal)
    assert refused.code == "repository_being_read"
    (job,) = await acme.jobs()
    assert job[0] == "origins.sync"
    gate.set()
    await jobs.sync(acme.hub.deps, job[1]["repo"])
    assert isinstance(await acme.watch("acme-inc/app"), Watched)


async def test_members_of_another_organization_see_nothing_of_it(acme: Covering) -> None:
    acme.covers("app")
    await acme.cover()
    async with acme.hub.deps.db.tx() as tx:
        found = await repos.find_repo(tx, acme.hub.grace, "acme-inc/app")
    assert isinstance(found, Refusal)
    assert found.code == "no_such_repository"
    refused = await repos.list_org(acme.hub.deps, act(acme.hub.grace), "acme")
    assert isinstance(refused, Refusal)
