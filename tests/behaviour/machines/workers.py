"""Workers whose jobs go on one await at a time, and end at any: what another process does meanwhile, a test does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, cast

from keel.db import Database, Tx
from rift.deps import Deps
from rift.drivers.forge.protocol import Forge
from rift.drivers.nix.protocol import Builder, BuildError

TURNS = 40
"""So many turns of the loop bring a job from the end of one await to its next: there is nothing between but Python."""
HANGS = 4
"""After so many further awaits a build that hangs counts as one: it was looked at whether anybody waits for it."""

Job = Callable[[Deps, str], Coroutine[Any, Any, None]]


class Gone(Exception):
    """What a worker that was killed meets instead of the database and the drivers: nothing of it is done any more."""


class Worker:
    """One job of a repository in a process of its own: before each transaction and each call of a driver it waits.

    A kill is there, or while a build hangs: a transaction that is cut off is one that never began.
    """

    def __init__(self, deps: Deps, name: str, job: Job, repo: str) -> None:
        self.name = name
        self._gates: list[asyncio.Future[None]] = []
        self._killed = self._ends = False
        self._hanging = self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        own = replace(
            deps,
            db=_Waited(deps.db, self),
            builder=cast(Builder, _Calls(deps.builder, self)),
            forge=cast(Forge, _Calls(deps.forge, self)),
        )
        self._task = asyncio.create_task(job(own, repo), name=f"{name} of a worker")

    @property
    def over(self) -> bool:
        return self._task.done()

    @property
    def hanging(self) -> bool:
        """Whether a build of its goes on, and nothing else is to be done but to look after it."""
        return self._hanging > 0

    async def go_on(self, which: int) -> None:
        """Do one of the things that wait, and come to the next."""
        await self.settle()
        if self._gates:
            self._gates.pop(which % len(self._gates)).set_result(None)
        await self.settle()

    async def run(self, most: int = 80) -> None:
        """Go on to the end, or until a build hangs."""
        looked = 0
        for _ in range(most):
            await self.go_on(0)
            looked = looked + 1 if self.hanging else 0
            if self.over or looked == HANGS:
                return
        raise AssertionError(f"{self.name} did not end within {most} awaits")

    async def kill(self) -> None:
        """The process is gone, and whatever it was doing with it."""
        self._killed = True
        for gate in self._gates:
            gate.set_exception(Gone())
        self._gates.clear()
        await self._cancel()

    async def end(self) -> None:
        """The process is told to end, and does what there is to do before that."""
        self._ends = True
        for gate in self._gates:
            gate.set_result(None)
        self._gates.clear()
        await self._cancel()

    async def _cancel(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError, Gone, BuildError):
            await self._task

    async def settle(self) -> None:
        """Until every part of it waits: for its turn, for another part, or for a build that hangs."""
        quiet = 0
        while quiet < TURNS:
            await self._idle.wait()
            await asyncio.sleep(0)
            quiet = quiet + 1 if not self._busy else 0
        if self.over:
            with suppress(asyncio.CancelledError, Gone, BuildError):  # a collection that failed is logged
                self._task.result()

    async def turn(self) -> None:
        """Called by what it is about to do."""
        if self._killed:
            raise Gone
        if self._ends:
            return
        gate = asyncio.get_running_loop().create_future()
        self._gates.append(gate)
        try:
            await gate
        finally:
            if gate in self._gates:
                self._gates.remove(gate)

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        self._busy += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    @asynccontextmanager
    async def builds(self) -> AsyncIterator[None]:
        self._hanging += 1
        try:
            yield
        finally:
            self._hanging -= 1


async def at_once(workers: list[Worker], most: int = 80) -> None:
    """Each goes on to its end, or until its build hangs, and all of them do what they do at the same moments."""
    looked = 0
    for _ in range(most):
        going = [worker for worker in workers if not worker.over]
        looked = looked + 1 if all(worker.hanging or worker.over for worker in workers) else 0
        if not going or looked == HANGS:
            return
        await asyncio.gather(*(worker.go_on(0) for worker in going))
    raise AssertionError(f"{len(workers)} workers did not end within {most} awaits")


class _Waited(Database):
    """The database, as a worker has it."""

    def __init__(self, db: Database, worker: Worker) -> None:
        self._db, self._worker = db, worker

    @asynccontextmanager
    async def tx(self, whose: str | None = None, *, few_trips: bool = False) -> AsyncIterator[Tx]:
        await self._worker.turn()
        async with self._worker.busy(), self._db.tx(whose, few_trips=few_trips) as tx:
            yield tx

    @asynccontextmanager
    async def look(self, whose: str | None = None) -> AsyncIterator[Tx]:
        await self._worker.turn()
        async with self._worker.busy(), self._db.look(whose) as tx:
            yield tx


class _Calls:
    """A driver, as a worker has it."""

    def __init__(self, driver: object, worker: Worker) -> None:
        self._driver, self._worker = driver, worker

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._driver, name)

        async def call(*arguments: object) -> object:
            await self._worker.turn()
            if name != "build":
                return await method(*arguments)
            async with self._worker.builds():
                return await method(*arguments)

        return call
