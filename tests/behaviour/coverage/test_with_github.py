"""Coverage against a GitHub that answers by HTTP, sends webhooks and serves git: as it is lived, and gone wrong."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from tests.behaviour.repos.hub import connected
from tests.github.hooks import Delivery
from tests.github.model import App, Installation, Owner, Repo
from tests.github.standin import StandIn
from tests.unit.people.house import act, caller, house, user
from tests.wire.serving import serving

from keel.settings import load
from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from rift.coverage import actions as coverage
from rift.deps import Deps
from rift.drivers.forge.local import LocalForge
from rift.drivers.github.http import HttpGitHub
from rift.origins import actions as origins
from rift.origins import jobs
from rift.people.model import Caller
from rift.repos import actions as repos
from rift.repos.model import Watched
from rift.settings import RiftSettings
from rift.wire.hooks.github import hook_routes

pytestmark = pytest.mark.timeout(120)


@dataclass
class Lived:
    """GitHub, and a Rift that it tells."""

    github: StandIn
    app: App
    acme: Owner
    there: Installation
    deps: Deps
    ada: Caller

    async def settle(self) -> list[tuple[str, dict[str, Any]]]:
        """Hear all webhooks, and do what they ask for; what that was."""
        await asyncio.to_thread(self.github.hooks.settle)
        async with self.deps.db.tx() as tx:
            rows = await tx.rows("SELECT task_name, args FROM procrastinate_jobs ORDER BY id")
            await tx.run("DELETE FROM procrastinate_jobs")
        done = [(row["task_name"], row["args"]) for row in rows]
        for name, args in done:
            if name == "coverage.cover":
                await coverage.cover(self.deps, args["installation"])
            elif name == "origins.sync":
                await jobs.sync(self.deps, args["repo"])
        return done

    async def do(self, what: Callable[[], object]) -> list[str]:
        """Somebody does something at GitHub; the jobs that follow."""
        await asyncio.to_thread(what)
        return [name for name, _ in await self.settle() if name.startswith(("coverage.", "origins."))]

    async def watch(self, name: str) -> Watched:
        watched = await origins.watch(self.deps, act(self.ada, "rift_watch"), name, "main")
        assert isinstance(watched, Watched), watched
        await self.settle()
        return watched

    async def head(self, repo: str) -> str | None:
        async with self.deps.db.tx() as tx:
            watch = await repos.watch_of(tx, repo, "main")
        return watch.head if watch else None

    async def names(self) -> list[str]:
        async with self.deps.db.tx() as tx:
            rows = await tx.rows("SELECT owner || '/' || name AS full FROM repos WHERE uncovered_at IS NULL ORDER BY 1")
        return [row["full"] for row in rows]

    def repo(self, name: str) -> Repo:
        return next(one for one in self.github.world.repos.values() if one.name == name)


@pytest.fixture
async def lived(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Lived]:
    """An organization at GitHub with the App in all its repositories, and two of them."""
    with StandIn(clock=clock.now) as github, socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        boss = github.make_user("boss")
        acme = github.make_org("acme", admins=[boss])
        app = github.make_app(boss, webhook_url=f"{url}/hooks/github", events=("push", "repository"))
        for name in ("acme/app", "acme/lib"):
            github.make_repo(name)
        there = github.install(app, acme, by=boss)
        github.hooks.drop()
        settings = load(RiftSettings, github.settings(app) | {"Rift__Server__PublicUrl": url})
        async with house(database, tmp_path, clock, LocalForge()) as made:
            deps = replace(made, settings=settings, github=HttpGitHub(github.url, github.api, clock))
            await user(deps, "ada@example.org", admin=True)
            ada = await caller(deps, "ada@example.org")
            async with deps.db.tx() as tx:
                (org,) = await tx.rows("SELECT id FROM orgs")
            await connected(deps, org["id"], there.id, "acme", acme.id)
            async with serving(Starlette(routes=hook_routes(deps)), listening):
                lived = Lived(github, app, acme, there, deps, ada)
                await asyncio.to_thread(github.hooks.settle)
                github.hooks.keep()
                await coverage.cover(deps, there.id)
                yield lived


async def test_what_happens_at_github_is_followed_by_webhooks(lived: Lived) -> None:
    github = lived.github
    assert await lived.names() == ["acme/app", "acme/lib"]
    watched = await lived.watch("acme/app")
    repo, app = watched.repo.id, lived.repo("app")
    assert await lived.do(lambda: github.push_from_outside(app, "main", {"a.txt": "a\n"})) == ["origins.sync"]
    assert await lived.head(repo) == await asyncio.to_thread(github.head, app, "main")
    assert await lived.do(lambda: github.push_from_outside(lived.repo("lib"), "main", {"a.txt": "a\n"})) == []
    assert "coverage.cover" in await lived.do(lambda: github.make_repo("acme/new"))
    assert await lived.names() == ["acme/app", "acme/lib", "acme/new"]
    assert "coverage.cover" in await lived.do(lambda: github.rename(app, "application"))
    assert await lived.names() == ["acme/application", "acme/lib", "acme/new"]
    await lived.do(lambda: github.push_from_outside(app, "main", {"b.txt": "b\n"}))
    assert await lived.head(repo) == await asyncio.to_thread(github.head, app, "main")
    assert "coverage.cover" in await lived.do(lambda: github.suspend(lived.there))
    async with lived.deps.db.tx() as tx:
        seen = await repos.repo_by_id(tx, repo)
    assert seen is not None
    assert seen.suspended_at is not None
    await lived.do(lambda: github.unsuspend(lived.there))
    await lived.do(lambda: github.delete(lived.repo("new")))
    assert await lived.names() == ["acme/application", "acme/lib"]
    assert all(one.status == 204 for one in github.hooks.all if not one.dropped)


async def test_webhooks_that_come_in_another_order_twice_or_never_end_in_the_same(lived: Lived) -> None:
    github, app = lived.github, lived.repo("app")
    watched = await lived.watch("acme/app")
    github.hooks.hold()

    def much() -> None:
        github.rename(app, "two")
        github.push_from_outside(app, "main", {"a.txt": "a\n"})
        github.suspend(lived.there)
        github.unsuspend(lived.there)
        github.rename(app, "three")

    await asyncio.to_thread(much)
    github.hooks.release(lambda held: [*reversed(held)])
    await lived.settle()
    await lived.settle()
    await jobs.sync(lived.deps, watched.repo.id)
    assert await lived.names() == ["acme/lib", "acme/three"]
    assert await lived.head(watched.repo.id) == await asyncio.to_thread(github.head, app, "main")
    last: Delivery = github.hooks.last("repository", "renamed")
    assert await lived.do(lambda: github.hooks.again(last)) == []
    github.hooks.drop()

    def unheard() -> None:
        github.push_from_outside(app, "main", {"b.txt": "b\n"})
        github.rename(app, "four")

    assert await lived.do(unheard) == []
    assert isinstance(lived.deps.clock, FakeClock)
    lived.deps.clock.advance(lived.deps.settings.github.cover_every)
    await coverage.poll(lived.deps)
    await jobs.poll(lived.deps)
    await lived.settle()
    await lived.settle()
    assert await lived.names() == ["acme/four", "acme/lib"]
    assert await lived.head(watched.repo.id) == await asyncio.to_thread(github.head, app, "main")


async def test_three_thousand_are_listed_through_a_rate_limit(lived: Lived) -> None:
    github = lived.github
    await asyncio.to_thread(github.make_repos, lived.acme, 3000, "service")
    github.limit_rate(lived.there, remaining=12)
    first = await coverage.cover(lived.deps, lived.there.id)
    assert first is not None
    assert first.stands == "waits"
    assert await lived.names() == ["acme/app", "acme/lib"]
    github.calm()
    assert isinstance(lived.deps.clock, FakeClock)
    lived.deps.clock.advance(timedelta(hours=1, minutes=1))
    done = await coverage.cover(lived.deps, lived.there.id)
    assert done is not None
    assert done.new == 3000
