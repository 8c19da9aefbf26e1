"""The local forge with git itself, looked at by a worker as in the running system."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.people.house import act, caller, house, user

from keel.jobs import Jobs
from keel.refusal import Refusal
from keel.testing import FakeClock, eventually
from keel.testing.plugin import FreshDatabase
from rift.checklist import actions as checklist
from rift.deps import Deps
from rift.drivers.forge.local import LocalForge
from rift.origins import actions as origins
from rift.origins import jobs
from rift.people.model import Caller
from rift.repos import actions
from rift.repos.model import Repo


def git(folder: Path, *words: str) -> str:
    """Run git in a folder as somebody; returns what it printed."""
    name = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path, text: str) -> str:
    """A new commit; returns its name."""
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with one commit on main."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, "one")
    return folder


@pytest.fixture
async def deps(database: FreshDatabase, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Deps]:
    """Everything an action takes, git included."""
    async with house(database, tmp_path / "data", clock, LocalForge()) as made:
        yield made


@pytest.fixture
async def ada(deps: Deps) -> Caller:
    """The first platform admin."""
    await user(deps, "ada@example.org", admin=True)
    return await caller(deps, "ada@example.org")


async def head(deps: Deps, repo: Repo) -> str | None:
    async with deps.db.tx() as tx:
        one = await actions.watch_of(tx, repo.id, "main")
    return one.head if one else None


async def test_a_pushed_commit_becomes_the_watched_head_within_a_poll(
    deps: Deps, ada: Caller, origin: Path, database: FreshDatabase, clock: FakeClock
) -> None:
    repo = await origins.add_repo(deps, None, "acme/app", str(origin))
    assert isinstance(repo, Repo)
    await origins.watch(deps, act(ada), "app", "main", 0)
    assert await head(deps, repo) == git(origin, "rev-parse", "HEAD")
    queue: Jobs[Deps] = Jobs(database.runtime)
    jobs.register(queue)
    worker = asyncio.create_task(queue.work(deps))
    try:
        pushed = commit(origin, "two")
        clock.advance(10)

        async def followed() -> bool:
            return await head(deps, repo) == pushed

        await eventually(followed)
        mirror = actions.mirror_path(deps, repo.id)
        assert git(mirror, "rev-parse", "main") == pushed
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_a_folder_that_is_no_repository_is_refused_and_leaves_nothing(
    deps: Deps, ada: Caller, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    refused = await origins.add_repo(deps, None, "acme/app", str(tmp_path / "empty"))
    assert isinstance(refused, Refusal)
    assert refused.code == "cannot_fetch"
    assert str(tmp_path / "empty") in refused.sentence
    mirrors = tmp_path / "data" / "mirrors"
    assert not mirrors.exists() or not [one for one in mirrors.iterdir() if not one.name.startswith(".")]


async def test_a_repository_without_commits_is_added_and_waits_for_its_first(
    deps: Deps, ada: Caller, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    git(folder, "init", "-q")
    repo = await origins.add_repo(deps, None, "acme/new", str(folder))
    assert isinstance(repo, Repo)
    refused = await origins.watch(deps, act(ada), "acme/new", "main")
    assert isinstance(refused, Refusal)
    assert refused.code == "no_such_ref"
    commit(folder, "one")
    assert not isinstance(await origins.watch(deps, act(ada), "acme/new", "main"), Refusal)


async def test_an_origin_that_moved_away_is_told_and_mended(deps: Deps, ada: Caller, origin: Path) -> None:
    repo = await origins.add_repo(deps, None, "acme/app", str(origin))
    assert isinstance(repo, Repo)
    away = origin.rename(origin.with_name("away"))
    broken = await origins.sync(deps, "acme/app")
    assert not isinstance(broken, Refusal)
    assert broken[0].failure
    me = await checklist.whoami(deps, act(ada))
    assert broken[0].failure in me.gaps[0].text
    away.rename(origin)
    mended = await origins.sync(deps, "acme/app")
    assert not isinstance(mended, Refusal)
    assert mended[0].failure is None
    assert (await actions.list_repos(deps))[0].repo.failure is None
