"""A repository whose commits have flakes, on a host that can lose what was built: for the machine of environments."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.behaviour.github.hub import WITH_APP
from tests.behaviour.machines.harness import HEAD, URL, Bench, Place, mute
from tests.behaviour.machines.workers import Worker

from keel.refusal import Refusal
from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.boxes.protocol import BoxSpec, Started, StoreLost, outside_transactions
from rift.drivers.github.fake import FakeGitHub
from rift.drivers.nix.fake import FakeBuilder
from rift.drivers.nix.protocol import Built
from rift.environments import actions as environments
from rift.environments import jobs
from rift.origins import actions as origins
from rift.repos import actions as repos

COMMITS = [HEAD, *(letter * 40 for letter in "bcde")]
"""The first has no flake of ours."""
REFS = ["main", "next"]
LOCKED = {"environments.build", "environments.tidy"}
"""The jobs of one lock: while a worker does one of them, none of them begins."""


def built(commit: str) -> Built:
    """What a commit's flake comes to: one package, of its own."""
    return Built(Path("/nix/store"), (f"/nix/store/{commit[:32]}-tool",), (), "")


class Boxes(FakeBoxes):
    """Boxes whose packages are looked for before they start, as a host does."""

    def __init__(self, builder: FakeBuilder) -> None:
        super().__init__(mute)
        self._builder = builder
        self.equipped: dict[str, tuple[str, ...]] = {}
        """What each box has had since its last start."""

    @outside_transactions
    async def start(self, spec: BoxSpec) -> Started:
        paths = spec.equipment.paths if spec.equipment else ()
        for path in paths:
            if path not in there(self._builder):
                raise StoreLost(f"there is no {path}")
        started = await super().start(spec)
        self.equipped[spec.box] = paths
        return started


def there(builder: FakeBuilder) -> set[str]:
    """The packages that the host has."""
    return {path for one in builder.made.values() for path in one.paths}


class Site:
    """What happens to the repository, to its boxes, and to what is built for them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        bench.execute(STEPS)
        place = bench.fresh()
        assert isinstance(place.deps.github, FakeGitHub)
        account = place.deps.github.install("acme", "Organization").id
        covered = place.deps.github.cover(account, "app").id
        bench.execute(
            f"""
            INSERT INTO github_accounts (installation, org, account_id, login, kind, enabled, connected_at)
            SELECT {account}, org, 1, 'acme', 'Organization', true, now() FROM repos;
            UPDATE repos SET forge = 'github', account = {account}, github_id = {covered};
            """
        )

    def fresh(self) -> None:
        """The site as at its start: main is watched, at a commit without a flake, and all goes well."""
        self.bench.execute(
            """
            UPDATE repos SET uncovered_at = NULL; UPDATE github_accounts SET enabled = true; DELETE FROM watches;
            DELETE FROM heads WHERE ref <> 'main';
            INSERT INTO watches (repo, ref, warm, created_at) SELECT id, 'main', 0, now() FROM repos;
            """
        )
        place = self.bench.fresh()
        self.bench.execute("DELETE FROM environment_steps")
        builder = FakeBuilder()
        builder.flakes = {commit: built(commit) for commit in COMMITS[1:]}
        github = WITH_APP.github.model_copy(update={"url": URL.removesuffix("/acme/app.git")})
        settings = place.deps.settings.model_copy(update={"github": github})
        self.boxes = Boxes(builder)
        deps = replace(place.deps, builder=builder, boxes=self.boxes, settings=settings)
        self.place: Place = replace(place, deps=deps)
        self.builder, self.repo = builder, place.repo.id
        self.forge = place.forge
        self.forge.repositories[URL] = {"main": HEAD, "next": HEAD}
        self.forge.ungathered.clear()
        self.workers: list[Worker] = []
        self.bench.run(self.settle_in())

    async def settle_in(self) -> None:
        """The heads are read, a task is open."""
        await origins.sync_repo(self.place.deps, self.repo)
        self.handle = (await self.place.open_task()).handle

    # What the world does.

    async def move(self, ref: str, commit: str) -> None:
        """A push; the origin is read where the repository is open."""
        self.forge.repositories[URL][ref] = commit
        await self.read()

    async def read(self) -> None:
        assert await origins.sync_repo(self.place.deps, self.repo)

    async def watch(self, ref: str, warm: int) -> bool:
        act = self.place.act(tool="rift_watch")
        return not isinstance(await repos.watch(self.place.deps, act, "acme/app", ref, warm), Refusal)

    async def unwatch(self, ref: str) -> bool:
        act = self.place.act(tool="rift_unwatch")
        return not isinstance(await repos.unwatch(self.place.deps, act, "acme/app", ref), Refusal)

    def close(self, how: str) -> None:
        if how == "disabled":
            self.bench.execute("UPDATE github_accounts SET enabled = false")
        else:
            self.bench.execute("UPDATE repos SET uncovered_at = now()")

    def open(self) -> None:
        self.bench.execute("UPDATE github_accounts SET enabled = true; UPDATE repos SET uncovered_at = NULL")

    async def lose(self, commit: str) -> None:
        """What was built for a commit is gone from the host, and the agents of its boxes with it."""
        for build in [build for build, one in self.builder.made.items() if one == built(commit)]:
            del self.builder.made[build]
        for box in await self.place.all_boxes():
            if box.commit == commit and box.state in ("running", "parked"):
                await self.boxes.kill_agent(box.id)
                await self.place.worker.jobs["boxes.revive"](self.place.deps, box=box.id)

    # What workers do.

    async def begin(self, name: str = "environments.build") -> Worker:
        job = jobs.build if name == "environments.build" else jobs.tidy
        worker = Worker(self.place.deps, name, job, self.repo)
        self.workers.append(worker)
        await worker.settle()
        return worker

    def living(self) -> list[Worker]:
        self.workers = [worker for worker in self.workers if not worker.over]
        return self.workers

    async def settle(self) -> None:
        """What hung goes on."""
        for worker in self.living():
            await worker.settle()

    async def work(self, builds: bool = True) -> None:
        """The jobs that wait and can begin, and those that they ask for, until none is left or a build hangs.

        `builds`: those too that build and collect.
        """
        for _ in range(200):
            names = sorted(LOCKED) if self.living() or not builds else []
            async with self.place.deps.db.tx() as tx:
                job = await tx.row(
                    """
                    DELETE FROM procrastinate_jobs WHERE id = (
                        SELECT min(id) FROM procrastinate_jobs WHERE task_name <> ALL(%(names)s))
                    RETURNING task_name, args
                    """,
                    {"names": names},
                )
            if job is None:
                return
            if job["task_name"] in LOCKED:
                await (await self.begin(job["task_name"])).run()
            else:
                await self.place.worker.jobs[job["task_name"]](self.place.deps, **job["args"])
        raise AssertionError("200 jobs did not end it")

    async def upkeep(self) -> None:
        """What comes round by itself, and what it asks for."""
        for name in ("environments.scan", "boxes.upkeep", "pools.scan"):
            await self.place.worker.jobs[name](self.place.deps)
        await self.work()

    async def collect(self) -> None:
        await environments.old(self.place.deps)
        await self.work()

    # What there is.

    def collects(self) -> bool:
        return any(worker.name == "environments.tidy" for worker in self.living())

    def waits(self, commit: str) -> bool:
        """Whether somebody waits for the environment of a commit, as the contract counts."""
        (row,) = self.bench.run(self.rows(f"SELECT waits('{commit}') AS waits"))
        return bool(row["waits"])

    async def event(self) -> asyncio.Event:
        return asyncio.Event()

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        return await self.place.rows(sql)


STEPS = """
    CREATE TABLE environment_steps (
        seq bigserial PRIMARY KEY, id text, commit text, old_state text, new_state text, old_epoch bigint,
        new_epoch bigint, old_until timestamptz, heads bigint, open boolean, waiting bigint, boxes bigint, newer bigint
    );
    CREATE FUNCTION heads_at(commit_ text) RETURNS bigint LANGUAGE sql AS $$
        SELECT count(*) FROM watches w JOIN heads h USING (repo, ref) WHERE h.commit = commit_
    $$;
    CREATE FUNCTION boxes_at(commit_ text, states text[]) RETURNS bigint LANGUAGE sql AS $$
        SELECT count(*) FROM boxes b WHERE b.commit = commit_ AND b.state = ANY(states)
    $$;
    CREATE FUNCTION is_open() RETURNS boolean LANGUAGE sql AS $$
        SELECT r.uncovered_at IS NULL AND a.enabled FROM repos r, github_accounts a
    $$;
    CREATE FUNCTION waits(commit_ text) RETURNS boolean LANGUAGE sql AS $$
        SELECT (heads_at(commit_) > 0 AND is_open()) OR boxes_at(commit_, '{starting,running,parked}') > 0
    $$;
    CREATE FUNCTION note_environment() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    DECLARE one environments := coalesce(new, old);
    BEGIN
        INSERT INTO environment_steps VALUES (
            DEFAULT, one.id, one.commit, old.state, new.state, old.epoch, new.epoch, old.until,
            heads_at(one.commit), is_open(), boxes_at(one.commit, '{starting,running,parked}'),
            boxes_at(one.commit, '{starting,running,parked,failed,destroying}'),
            (SELECT count(*) FROM environments e WHERE e.state = 'waiting' AND e.id <> one.id
             AND (e.wanted_at, e.id) > (one.wanted_at, one.id) AND waits(e.commit))
        );
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_environment AFTER INSERT OR UPDATE OR DELETE ON environments
        FOR EACH ROW EXECUTE FUNCTION note_environment();
    GRANT SELECT ON environment_steps TO PUBLIC;
"""
"""Every change of an environment's row, with who waited for it and used it at that moment, as the contract counts."""
