"""Heads follow the origin: polled, asked for, failing and mended, one process at a time."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.people.house import act, caller, user

from keel.refusal import Refusal
from keel.testing import FakeClock, eventually
from rift.deps import Deps
from rift.drivers.forge.fake import FakeForge
from rift.drivers.forge.protocol import Access
from rift.origins import actions as origins
from rift.origins import jobs
from rift.origins.model import Synced
from rift.repos import actions
from rift.repos.model import Change, Repo

URL = "https://ada:hunter2@example.org/acme/app.git"
HEAD, NEXT = "a" * 40, "b" * 40


class SlowForge(FakeForge):
    """Fetches wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.go.set()
        self.fetches = 0
        self.waiting = 0

    async def fetch(self, url: str, mirror: Path, access: Access | None = None) -> dict[str, str]:
        self.fetches += 1
        self.waiting += 1
        try:
            seen = await super().fetch(url, mirror, access)
            await self.go.wait()
        finally:
            self.waiting -= 1
        return seen


@pytest.fixture
def forge() -> FakeForge:
    """The origin, with one branch."""
    fake = FakeForge()
    fake.repositories[URL] = {"main": HEAD}
    return fake


@pytest.fixture
async def repo(deps: Deps, forge: FakeForge) -> Repo:
    """A repository of the first admin, main watched."""
    await user(deps, "ada@example.org", admin=True)
    made = await origins.add_repo(deps, None, "acme/app", URL)
    assert isinstance(made, Repo)
    await origins.watch(deps, act(await caller(deps, "ada@example.org")), "acme/app", "main")
    await clear(deps)
    return made


async def clear(deps: Deps) -> None:
    async with deps.db.tx() as tx:
        await tx.run("DELETE FROM procrastinate_jobs")


async def queued(deps: Deps) -> list[str]:
    """The jobs that wait, as name and what they are about."""
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT task_name, args FROM procrastinate_jobs ORDER BY id")
    return [" ".join([row["task_name"], row["args"]["repo"], row["args"].get("ref", "")]).strip() for row in rows]


async def found(deps: Deps, repo: Repo) -> Synced:
    synced = await origins.sync_repo(deps, repo.id)
    assert synced is not None
    return synced


async def test_a_moved_head_is_told_and_its_pool_is_asked_to_follow(deps: Deps, forge: FakeForge, repo: Repo) -> None:
    forge.repositories[URL] = {"main": NEXT, "dev": HEAD}
    synced = await found(deps, repo)
    assert synced.changes == (Change("dev", None, HEAD), Change("main", HEAD, NEXT))
    assert await queued(deps) == [f"pools.fill {repo.id} main"]
    async with deps.db.tx() as tx:
        one = await actions.watch_of(tx, repo.id, "main")
    assert one is not None
    assert one.head == NEXT


async def default_of(deps: Deps, repo: Repo) -> str | None:
    async with deps.db.look() as tx:
        found = await actions.repo_by_id(tx, repo.id)
    assert found is not None
    return found.default_branch


async def test_the_default_branch_is_what_the_origin_names_and_follows_it(
    deps: Deps, forge: FakeForge, repo: Repo
) -> None:
    assert await default_of(deps, repo) == "main"  # since it was added
    forge.defaults[URL] = "trunk"
    await origins.sync_repo(deps, repo.id)
    assert await default_of(deps, repo) == "main", "nothing moved, so the origin was not asked"
    forge.repositories[URL] = {"main": HEAD, "trunk": NEXT}
    await origins.sync_repo(deps, repo.id)
    assert await default_of(deps, repo) == "trunk"
    forge.defaults[URL] = "main"
    await origins.sync_repo(deps, repo.id, thorough=True)
    assert await default_of(deps, repo) == "main"
    forge.repositories[URL] = {"main": NEXT}
    forge.defaults[URL] = None
    await origins.sync_repo(deps, repo.id)
    assert await default_of(deps, repo) is None
    forge.defaults[URL] = "main"  # and it is asked for until it is known
    await origins.sync_repo(deps, repo.id)
    assert await default_of(deps, repo) == "main"
    forge.broken[URL] = "it burns"
    await origins.sync_repo(deps, repo.id, thorough=True)
    assert await default_of(deps, repo) == "main"


async def test_nothing_new_is_not_fetched_and_asks_for_nothing(deps: Deps, forge: FakeForge, repo: Repo) -> None:
    (mirror,) = forge.mirrors.values()
    mirror.heads = {}
    synced = await found(deps, repo)
    assert (synced.changes, synced.failure, synced.skipped) == ((), None, False)
    assert mirror.heads == {}
    assert await queued(deps) == []


async def test_a_broken_origin_is_told_whole_and_masked_until_it_is_mended(
    deps: Deps, forge: FakeForge, repo: Repo, clock: FakeClock
) -> None:
    forge.broken[URL] = "line one\nline two"
    clock.advance(10)
    assert (await found(deps, repo)).failure is not None
    (view,) = await actions.list_repos(deps)
    assert view.repo.failure == "https://***@example.org/acme/app.git cannot be read: line one\nline two"
    assert view.shown_url == "https://***@example.org/acme/app.git"
    assert view.watches[0].head == HEAD
    assert view.repo.synced_at == clock.now()
    forge.broken.clear()
    assert (await found(deps, repo)).failure is None
    (view,) = await actions.list_repos(deps)
    assert view.repo.failure is None


async def test_each_repository_is_looked_at_in_its_turn(deps: Deps, repo: Repo, clock: FakeClock) -> None:
    await jobs.poll(deps)
    assert await queued(deps) == []
    clock.advance(10)
    await jobs.poll(deps)
    await jobs.poll(deps)
    assert await queued(deps) == [f"origins.sync {repo.id}"]
    await clear(deps)
    await jobs.sync(deps, repo.id)
    await jobs.poll(deps)
    assert await queued(deps) == []


async def test_a_broken_origin_does_not_hold_the_others(
    deps: Deps, forge: FakeForge, repo: Repo, clock: FakeClock
) -> None:
    forge.repositories["https://example.org/lib"] = {"main": HEAD}
    lib = await origins.add_repo(deps, None, "acme/lib", "https://example.org/lib")
    assert isinstance(lib, Repo)
    forge.broken[URL] = "down"
    forge.repositories["https://example.org/lib"] = {"main": NEXT}
    clock.advance(10)
    await jobs.poll(deps)
    assert sorted(await queued(deps)) == sorted([f"origins.sync {repo.id}", f"origins.sync {lib.id}"])
    both = await origins.sync(deps)
    assert not isinstance(both, Refusal)
    assert {one.repo.full: (one.failure is None, len(one.changes)) for one in both} == {
        "acme/app": (False, 0),
        "acme/lib": (True, 1),
    }


async def test_a_repository_that_is_gone_is_no_error(deps: Deps) -> None:
    await jobs.sync(deps, "repo_gone")
    assert await origins.sync_repo(deps, "repo_gone") is None


async def test_an_unknown_name_is_not_synced(deps: Deps, repo: Repo) -> None:
    refused = await origins.sync(deps, "acme/none")
    assert isinstance(refused, Refusal)
    assert refused.code == "no_such_added_repository"


class TestOneAtATime:
    @pytest.fixture
    def forge(self) -> SlowForge:
        """An origin whose fetches wait."""
        slow = SlowForge()
        slow.repositories[URL] = {"main": HEAD}
        return slow

    async def test_one_process_reads_an_origin_at_a_time(self, deps: Deps, forge: SlowForge, repo: Repo) -> None:
        forge.repositories[URL] = {"main": NEXT}
        forge.go.clear()
        first = asyncio.create_task(found(deps, repo))
        await eventually(lambda: forge.waiting)
        assert (await found(deps, repo)).skipped
        forge.go.set()
        assert (await first).changes == (Change("main", HEAD, NEXT),)

    async def test_asked_for_a_sync_waits_for_the_one_that_runs_and_looks_again(
        self, deps: Deps, forge: SlowForge, repo: Repo
    ) -> None:
        forge.repositories[URL] = {"main": NEXT}
        forge.go.clear()
        first = asyncio.create_task(found(deps, repo))
        await eventually(lambda: forge.waiting)
        forge.repositories[URL] = {"main": "c" * 40}
        asked = asyncio.create_task(origins.sync(deps, "acme/app"))
        forge.go.set()
        assert (await first).changes == (Change("main", HEAD, NEXT),)
        synced = await asked
        assert not isinstance(synced, Refusal)
        assert synced[0].changes == (Change("main", NEXT, "c" * 40),)

    async def test_a_look_whose_time_is_over_changes_nothing(
        self, deps: Deps, forge: SlowForge, repo: Repo, clock: FakeClock
    ) -> None:
        forge.repositories[URL] = {"main": NEXT}
        forge.go.clear()
        stuck = asyncio.create_task(found(deps, repo))
        await eventually(lambda: forge.waiting)
        clock.advance(origins.LOOK_FOR + timedelta(seconds=1))
        forge.repositories[URL] = {"main": "c" * 40}
        newer = asyncio.create_task(found(deps, repo))
        await eventually(lambda: forge.waiting == 2)
        forge.go.set()
        assert (await stuck).skipped
        assert (await newer).changes == (Change("main", HEAD, "c" * 40),)
        async with deps.db.tx() as tx:
            one = await actions.watch_of(tx, repo.id, "main")
        assert one is not None
        assert one.head == "c" * 40

    async def test_a_mirror_that_was_lost_is_fetched_again_though_no_head_moved(
        self, deps: Deps, forge: SlowForge, repo: Repo
    ) -> None:
        before = forge.fetches
        await found(deps, repo)
        assert forge.fetches == before
        forge.mirrors.clear()
        await found(deps, repo)
        assert (forge.fetches, len(forge.mirrors)) == (before + 1, 1)

    async def test_a_look_that_is_cancelled_leaves_the_origin_to_others(
        self, deps: Deps, forge: SlowForge, repo: Repo
    ) -> None:
        forge.repositories[URL] = {"main": NEXT}
        forge.go.clear()
        stuck = asyncio.create_task(found(deps, repo))
        await eventually(lambda: forge.waiting)
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)
        forge.go.set()
        assert (await found(deps, repo)).changes == (Change("main", HEAD, NEXT),)
