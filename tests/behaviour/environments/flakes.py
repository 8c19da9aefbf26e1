"""What tests do with environments: push flakes, build them step by step, look at what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from tests.behaviour.machines.harness import URL, Place

from rift.drivers.nix.fake import FakeBuilder
from rift.drivers.nix.protocol import Built
from rift.environments import actions as environments
from rift.environments import jobs
from rift.environments.model import Environment
from rift.origins import actions as origins
from rift.repos import actions as repos
from rift.repos.model import Watch

TEXT = "error: builder for '/nix/store/…-app.drv' failed with exit code 1\n" + "a line of its log\n" * 400
"""What a build that failed says."""
TOOL = "/nix/store/00000000000000000000000000000000-tool"


def built(setup: str = "") -> Built:
    """What a flake with one package and one variable comes to."""
    return Built(Path("/nix/store"), (TOOL,), (("HELLO", "world"),), setup)


def commit(letter: str) -> str:
    """A commit's name."""
    return letter * 40


@dataclass
class Flakes:
    """A place, and what its builder knows."""

    place: Place
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def builder(self) -> FakeBuilder:
        assert isinstance(self.place.deps.builder, FakeBuilder)
        return self.place.deps.builder

    async def push(self, letter: str, *, ref: str = "main", setup: str = "", broken: str | None = None) -> str:
        """A new head with a flake of ours; what that asks for is queued, and nothing is built yet."""
        name = commit(letter)
        if broken is None:
            self.builder.flakes[name] = built(setup)
        else:
            self.builder.broken[name] = broken
        self.place.forge.repositories[URL][ref] = name
        assert await origins.sync_repo(self.place.deps, self.place.repo.id)
        return name

    def hold(self, letter: str) -> asyncio.Event:
        """Builds of a commit go on only when this is set."""
        return self.builder.held.setdefault(commit(letter), asyncio.Event())

    def build(self) -> asyncio.Task[None]:
        """A worker's job for the repository, in the background."""
        task = asyncio.create_task(jobs.build(self.place.deps, self.place.repo.id))
        self._tasks.append(task)
        return task

    async def want(self) -> None:
        """What upkeep of the pools asks for, without the builds."""
        await self.place.worker.jobs["pools.scan"](self.place.deps)

    async def of(self, name: str) -> Environment | None:
        async with self.place.deps.db.tx() as tx:
            return await environments.of_head(tx, self.place.repo.id, name)

    async def state(self, name: str) -> str | None:
        found = await self.of(name)
        return found.state if found else None

    async def needed(self, name: str) -> bool:
        """Whether whoever builds it is told to go on."""
        found = await self.of(name)
        assert found
        return await environments.keep(self.place.deps, found) is True

    async def log(self, name: str, offset: int = 0) -> bytes:
        found = await self.of(name)
        assert found
        async with self.place.deps.db.tx() as tx:
            part = await environments.log_of(tx, found.id, offset)
        assert part
        return part.data

    async def watch(self, ref: str = "main") -> Watch:
        async with self.place.deps.db.tx() as tx:
            found = await repos.watch_of(tx, self.place.repo.id, ref)
        assert found
        return found
