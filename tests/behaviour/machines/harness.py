"""A whole Rift in one process for tests that drive it step by step: real database, boxes and forge in memory.

Nothing happens by itself. Calls never wait (`HastyClock`), jobs run when a test says `work()`, and the agents of boxes
are the test's own voice (`agent(box)` with `rift.agents.actions`): what the driver starts stays mute.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from tests.unit.people.house import act, caller, house, user

from keel.refusal import Refusal
from keel.testing import FakeClock, FakeIds
from keel.testing.plugin import FreshDatabase
from rift.agents import actions as agents
from rift.agents.model import Agent, Up
from rift.audit import Act
from rift.boxes import actions as boxes
from rift.boxes import jobs as box_jobs
from rift.boxes.model import Box, Closed
from rift.commands import actions as commands
from rift.commands import jobs as command_jobs
from rift.commands.actions import Wanted
from rift.commands.model import Answer, Told, Work
from rift.deadline import Deadline
from rift.deps import Deps
from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.forge.fake import FakeForge
from rift.environments import actions as environments
from rift.environments import jobs as environment_jobs
from rift.hosts import jobs as host_jobs
from rift.origins import actions as origins
from rift.people.model import Caller
from rift.pools import jobs as pool_jobs
from rift.repos.model import Repo
from rift.tasks import actions as tasks
from rift.tasks import jobs as task_jobs
from rift.tasks.model import Lease, Task

URL = "https://example.org/acme/app.git"
HEAD = "a" * 40
BUDGET = 53.0

Result = TypeVar("Result")
Job = Callable[..., Coroutine[Any, Any, None]]


class HastyClock(FakeClock):
    """A clock for calls that must not wait: `now` stands still, and each look at `monotonic` is an hour later."""

    def monotonic(self) -> float:
        self._monotonic += 3600.0
        return self._monotonic


async def mute(*_: object) -> tuple[int, dict[str, Any]]:
    """What the driver's own agents say: nothing, so that the test can speak for them."""
    await asyncio.Event().wait()
    raise AssertionError("nobody wakes it")


async def silent(_: str) -> None:
    """Progress that nobody asked for."""


class Worker:
    """The jobs of all nouns by name, run when a test says so instead of by a worker."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        for module in (task_jobs, host_jobs, environment_jobs, box_jobs, command_jobs, pool_jobs):
            module.register(self)

    def on(self, name: str, run: Job) -> None:
        self.jobs[name] = run

    def every(self, name: str, seconds: int, run: Job) -> None:
        self.jobs[name] = run


@dataclass(frozen=True)
class Place:
    """A Rift with one repository, `acme/app`, whose main is watched; its people; and what moves it."""

    deps: Deps
    worker: Worker
    repo: Repo
    ada: Caller
    cursor: Caller
    """Ada again, through another client."""
    bob: Caller
    """Somebody else, with nothing of his own."""

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.deps.clock, FakeClock)
        return self.deps.clock

    @property
    def driver(self) -> FakeBoxes:
        assert isinstance(self.deps.boxes, FakeBoxes)
        return self.deps.boxes

    @property
    def forge(self) -> FakeForge:
        assert isinstance(self.deps.forge, FakeForge)
        return self.deps.forge

    # What people call.

    def act(self, who: Caller | None = None, tool: str = "rift_tool") -> Act:
        return act(who or self.ada, tool)

    async def open_task(self, who: Caller | None = None, name: str = "work") -> Lease:
        lease = await tasks.open_task(self.deps, self.act(who, "rift_task_new"), name)
        assert isinstance(lease, Lease)
        return lease

    async def new_box(self, task: str, who: Caller | None = None, ref: str = "main") -> Box | Refusal:
        return await boxes.new_box(self.deps, self.act(who, "rift_vm_new"), task, "acme/app", ref, silent)

    async def destroy(self, task: str, vm: str, who: Caller | None = None) -> Box | Refusal:
        return await boxes.destroy(self.deps, self.act(who, "rift_vm_destroy"), task, vm, silent)

    async def suspend(self, task: str, vm: str, who: Caller | None = None) -> Box | Refusal:
        return await boxes.suspend(self.deps, self.act(who, "rift_vm_suspend"), task, vm)

    async def close_task(self, task: str, who: Caller | None = None) -> Closed | Refusal:
        return await boxes.close_task(self.deps, self.act(who, "rift_task_close"), task, silent)

    async def bash(self, task: str, vm: str, text: str = "make", who: Caller | None = None) -> Answer | Refusal:
        wanted = Wanted("bash", text, 60)
        deadline = Deadline(self.deps.clock, BUDGET)
        return await commands.run(self.deps, self.act(who, "rift_bash"), deadline, task, vm, wanted, 0, silent)

    async def output(self, task: str, *wanted: tuple[str, int], who: Caller | None = None) -> list[Answer] | Refusal:
        deadline = Deadline(self.deps.clock, BUDGET)
        return await commands.output(self.deps, self.act(who, "rift_output"), deadline, task, wanted, 0, silent)

    async def stop(self, task: str, id: str, who: Caller | None = None) -> Answer | Refusal:
        deadline = Deadline(self.deps.clock, BUDGET)
        return await commands.stop(self.deps, self.act(who, "rift_stop"), deadline, task, id, silent)

    # What the world does.

    async def work(self, at_most: int = 200) -> None:
        """Run the jobs that wait, and those that they ask for, until none is left."""
        for _ in range(at_most):
            async with self.deps.db.tx() as tx:
                job = await tx.row(
                    """
                    DELETE FROM procrastinate_jobs WHERE id = (SELECT min(id) FROM procrastinate_jobs)
                    RETURNING task_name, args
                    """
                )
            if job is None:
                return
            await self.worker.jobs[job["task_name"]](self.deps, **job["args"])
        raise AssertionError(f"{at_most} jobs did not end it")

    async def upkeep(self) -> None:
        """Every job that comes round by itself, once, and what they ask for."""
        for name in (
            "tasks.close_quiet",
            "hosts.report",
            "environments.scan",
            "commands.expire",
            "boxes.upkeep",
            "boxes.sweep",
            "pools.scan",
        ):
            await self.worker.jobs[name](self.deps)
        await self.work()

    async def move_head(self, commit: str) -> None:
        """Push to main."""
        self.forge.repositories[URL]["main"] = commit
        assert await origins.sync_repo(self.deps, self.repo.id)

    async def watch(self, warm: int) -> None:
        """Let main have so many warm boxes."""
        watched = await origins.watch(self.deps, self.act(tool="rift_watch"), "acme/app", "main", warm)
        assert not isinstance(watched, Refusal), watched

    async def equip(self, commit: str = HEAD) -> None:
        """Have the environment of a commit of main there, and nothing else done."""
        async with self.deps.db.tx() as tx:
            await environments.want(tx, self.deps, self.repo.id, commit)
        await environment_jobs.build(self.deps, self.repo.id)

    # What a box's agent says.

    def agent(self, box: str, incarnation: int | None = None) -> Agent:
        """The agent that the driver started for a box last, or in that incarnation."""
        spec = next(
            spec for spec in reversed(self.driver.specs) if spec.box == box and incarnation in (None, spec.incarnation)
        )
        return Agent(box, spec.incarnation, spec.token)

    async def up(self, box: str) -> bool:
        return await agents.events(self.deps, self.agent(box), [Up()])

    async def poll(self, agent: Agent, *known: int, stopping: frozenset[int] = frozenset()) -> Work | None:
        return await agents.work(self.deps, agent, Told(frozenset(known), stopping), None, 0)

    async def running_box(self, task: str) -> Box:
        """A box of the task whose jail is up."""
        box = await self.new_box(task)
        assert isinstance(box, Box), box
        await self.work()
        if box.state == "starting":
            assert await self.up(box.id)
        return await self.box(box.id)

    async def warm(self, count: int) -> list[Box]:
        """So many warm boxes that run."""
        await self.watch(count)
        await self.work()
        for box in await self.all_boxes():
            if box.state == "starting":
                assert await self.up(box.id)
        return [box for box in await self.all_boxes() if box.task is None and box.state == "running"]

    # What there is.

    async def box(self, id: str) -> Box:
        async with self.deps.db.tx() as tx:
            return await boxes.find(tx, id)

    async def all_boxes(self) -> list[Box]:
        """Every box there ever was, the oldest first."""
        async with self.deps.db.tx() as tx:
            rows = await tx.rows("SELECT id FROM boxes ORDER BY created_at, number, id")
            return [await boxes.find(tx, row["id"]) for row in rows]

    async def task(self, id: str) -> Task:
        async with self.deps.db.tx() as tx:
            task = await tx.one(Task, "SELECT * FROM tasks WHERE id = %(id)s", {"id": id})
        assert task is not None
        return task

    async def rows(self, sql: str) -> list[dict[str, Any]]:
        """What a query of the test's own finds."""
        async with self.deps.db.tx() as tx:
            return await tx.rows(sql)


@asynccontextmanager
async def place(database: FreshDatabase, data: Path, clock: FakeClock, warm: int = 0) -> AsyncIterator[Place]:
    """A Rift over a fresh database. Its driver's agents are ended with it."""
    forge = FakeForge()
    forge.repositories[URL] = {"main": HEAD}
    async with house(database, data, clock, forge) as made:
        deps = replace(made, boxes=FakeBoxes(mute))
        await user(deps, "ada@example.org", admin=True)
        await user(deps, "bob@example.org")
        repo = await origins.add_repo(deps, None, "acme/app", URL)
        assert isinstance(repo, Repo), repo
        who = [
            await caller(deps, email, client)
            for email, client in (
                ("ada@example.org", "Claude"),
                ("ada@example.org", "Cursor"),
                ("bob@example.org", "Claude"),
            )
        ]
        ready = Place(deps, Worker(), repo, *who)
        await ready.watch(warm)
        try:
            yield ready
        finally:
            await ready.driver.close()


class Bench:
    """One Rift for all the runs of a state machine, each of which finds it empty. `run` is how its steps wait."""

    def __init__(self, database: FreshDatabase, data: Path) -> None:
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._owner = psycopg.connect(database.owner, autocommit=True)
        self._owner.execute(STEPS)
        self._place = self.run(self._stack.enter_async_context(place(database, data, HastyClock())))

    def run(self, step: Coroutine[Any, Any, Result]) -> Result:
        """Wait for one step."""
        return self._runner.run(step)

    def fresh(self, warm: int = 0) -> Place:
        """The Rift as at its start: no tasks, no boxes, main at HEAD with so many warm boxes wanted."""
        self.run(self._place.driver.close())
        for table in ("asks", "commands", "boxes", "tasks", "environments", "procrastinate_jobs", "steps"):
            self._owner.execute(f"DELETE FROM {table}".encode())
        self._owner.execute("UPDATE heads SET commit = %s", [HEAD])
        self._owner.execute(
            "UPDATE watches SET warm = %s, failure = NULL, failure_commit = NULL, failure_at = NULL, "
            "failure_stays = false",
            [warm],
        )
        self._place.forge.repositories[URL]["main"] = HEAD
        deps = replace(self._place.deps, clock=HastyClock(), ids=FakeIds("bench"), boxes=FakeBoxes(mute))
        self._place = replace(self._place, deps=deps)
        return self._place

    def execute(self, sql: str) -> None:
        """Run statements as who owns the tables."""
        self._owner.execute(sql.encode())

    def close(self) -> None:
        """End it."""
        self.run(self._stack.aclose())
        self.run(self._place.driver.close())
        self._owner.close()
        self._runner.close()


STEPS = """
    CREATE TABLE steps (
        seq bigserial PRIMARY KEY, what text, id text, old_state text, new_state text, old_task text, new_task text,
        old_incarnation integer, new_incarnation integer, old_epoch bigint, new_epoch bigint
    );
    CREATE FUNCTION note_box() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO steps VALUES (DEFAULT, 'box', new.id, old.state, new.state, old.task, new.task, old.incarnation,
                                  new.incarnation, old.epoch, new.epoch);
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_command() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO steps VALUES (DEFAULT, 'command', new.box || '.' || new.n, old.state, new.state, NULL, NULL,
                                  old.incarnation, new.incarnation);
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_box AFTER INSERT OR UPDATE ON boxes FOR EACH ROW EXECUTE FUNCTION note_box();
    CREATE TRIGGER note_command AFTER INSERT OR UPDATE ON commands FOR EACH ROW EXECUTE FUNCTION note_command();
    GRANT SELECT ON steps TO PUBLIC;
"""
"""Every change of a box's or a command's row, one by one, so that no transition between two looks is missed."""
