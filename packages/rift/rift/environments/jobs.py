"""Building environments, one at a time for each repository, and collecting those that nothing uses any more.

A build is guarded by its epoch: whoever takes one up says again and again that they still do, and one who was killed,
or was slow, writes nothing that another has begun anew.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import structlog

from keel.jobs import Jobs
from rift.deps import Deps
from rift.drivers.forge.protocol import ForgeError, ForgeInterrupted
from rift.drivers.github.protocol import GitHubError
from rift.drivers.nix.protocol import BuildError, BuildInterrupted
from rift.environments import actions
from rift.environments.model import Environment, Made
from rift.origins import actions as origins
from rift.repos import actions as repos

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""How often a build says that it goes on, looks whether anybody still waits for it, and writes down what it said."""


def register(jobs: Jobs[Deps]) -> None:
    """The jobs below, by name."""
    jobs.on("environments.build", build)
    jobs.on("environments.tidy", tidy)
    jobs.every("environments.scan", 5, actions.scan)
    jobs.every("environments.old", 60, actions.old)


@dataclass(frozen=True, slots=True)
class _Done:
    """What a build came to."""

    made: Made | None
    lacks: str
    size: int
    """Bytes of its log."""


async def build(deps: Deps, repo: str) -> None:
    """Build what a repository's heads and boxes wait for, the newest first, until there is nothing more or no place."""
    while (taken := await actions.take(deps, repo)) is not None:
        if not await _build(deps, taken):
            return


async def tidy(deps: Deps, repo: str) -> None:
    """Forget a repository's environments that nothing uses any more."""
    gone = await actions.tidy(deps, repo)
    if gone:
        log.info("environments.tidied", repo=repo, gone=gone)


async def _build(deps: Deps, taken: Environment) -> bool:
    """One environment, to its end. False where it waits for a place."""
    log.info("environment.begun", repo=taken.repo, commit=taken.commit, build=taken.build)
    work = asyncio.create_task(_work(deps, taken), name=f"build {taken.build}")
    hold = asyncio.create_task(_hold(deps, taken), name=f"hold {taken.build}")
    try:
        await asyncio.wait({work, hold}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:  # this worker ends
        await _end(work, hold)
        await actions.put_back(deps, taken, "the worker ended", counts=False)
        raise
    if not work.done():
        await _end(work, hold)
        log.info("environment.cancelled", repo=taken.repo, commit=taken.commit, build=taken.build)
        if hold.result() == "unneeded":
            await actions.cancelled(deps, taken)
        return True
    await _end(hold)
    return await _apply(deps, taken, work)


async def _apply(deps: Deps, taken: Environment, work: asyncio.Task[_Done | None]) -> bool:
    about = {"repo": taken.repo, "commit": taken.commit, "build": taken.build}
    try:
        done = work.result()
        if done is None:
            return False
        await actions.ready(deps, taken, done.made, done.lacks, done.size)
        log.info("environment.ready", **about)
    except (BuildInterrupted, ForgeInterrupted) as error:
        log.warning("environment.interrupted", **about, reason=error.reason)
        await actions.put_back(deps, taken, error.reason, counts=True)
    except BuildError as error:
        log.warning("environment.failed", **about, reason=error.reason[:2000])
        stays = await _lacking(deps) is None  # what the host lacks may be there the next time
        await actions.fail(deps, taken, error.reason, stays=stays)
    except (ForgeError, GitHubError) as error:
        log.warning("environment.ungathered", **about, reason=error.reason[:2000])
        await actions.fail(deps, taken, error.reason, stays=False)
    except Exception as error:  # whatever it is: the next try may go better, and there are not many
        log.exception("environment.fault", **about)
        await actions.put_back(deps, taken, type(error).__name__, counts=True)
    return True


async def _hold(deps: Deps, taken: Environment) -> str:
    """Go on being the one who builds it. Returns when it is another's (`lost`), or nobody waits for it (`unneeded`)."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        needed = await actions.keep(deps, taken)
        if not needed:
            return "lost" if needed is None else "unneeded"


async def _work(deps: Deps, taken: Environment) -> _Done | None:
    """Gather and build. None where it is put back, to wait for a place. Raises ForgeError, GitHubError, BuildError."""
    async with deps.db.tx() as tx:
        repo = await repos.repo_by_id(tx, taken.repo)
    assert repo is not None  # an environment goes with its repository
    mirror = repos.mirror_path(deps, repo.id)
    lacks = taken.lacks
    if taken.step != "build":
        access = await origins.access_of(deps, repo)
        lacks = " ".join((await deps.forge.gather(repo.url, mirror, taken.commit, access)).lacks)
        if not await deps.builder.wanted(mirror, taken.commit):
            return _Done(None, lacks, 0)
        if not await actions.gathered(deps, taken, lacks):
            return None
    async with _Log(deps, taken) as said:
        built = await deps.builder.build(taken.build, taken.repo, mirror, taken.commit)
    made = None if built is None else Made(str(built.store), built.paths, built.env, built.setup)
    return _Done(made, lacks, said.size)


async def _lacking(deps: Deps) -> str | None:
    try:
        return await deps.builder.lacking()
    except BuildError as error:
        return error.reason


class _Log:
    """For the length of a block, what the build says is written down while it goes, and the rest at its end."""

    def __init__(self, deps: Deps, taken: Environment) -> None:
        self._deps = deps
        self._taken = taken
        self._ended = asyncio.Event()
        self.size = 0

    async def __aenter__(self) -> Self:
        self._following = asyncio.create_task(self._follow(), name=f"log {self._taken.build}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        await self._following

    async def _follow(self) -> None:
        while True:
            last = self._ended.is_set()  # what was said before the end is there by now
            while await self._pull():
                pass
            if last:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), LOOK_SECONDS)

    async def _pull(self) -> bool:
        """The next piece, if there is one. A builder that cannot tell its log holds up no build."""
        try:
            piece = await self._deps.builder.log(self._taken.build, self.size)
        except BuildError as error:
            log.warning("environment.unheard", build=self._taken.build, reason=error.reason)
            return False
        if not piece.data:
            return False
        await actions.put_log(self._deps, self._taken, self.size, piece.data)
        self.size += len(piece.data)
        return True


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
