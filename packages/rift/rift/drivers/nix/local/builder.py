"""Builds environments on this host: evaluated and built by Nix in a jail, with a store of each repository's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from rift.drivers.boxes.local.places import locked, make_data
from rift.drivers.boxes.local.remove import remove_tree
from rift.drivers.boxes.local.runtime import Runtime
from rift.drivers.boxes.protocol import outside_transactions, telling
from rift.drivers.locks import locked as held
from rift.drivers.locks import tried
from rift.drivers.nix.local import flakes, found, jail, places
from rift.drivers.nix.local.config import NixConfig
from rift.drivers.nix.local.places import Place
from rift.drivers.nix.local.source import Commit, Source
from rift.drivers.nix.local.steps import Jailed
from rift.drivers.nix.protocol import LOG_PIECE, BuildError, BuildInterrupted, Built, LogPiece

SLOT_SECONDS = 0.2


class LocalBuilder:
    """All state is on disk and in the process table, so any replica here may use it."""

    kind: Literal["local"] = "local"

    def __init__(self, config: NixConfig) -> None:
        self._config = config
        self._runtime = Runtime(config.boxes)

    @outside_transactions
    @telling(BuildError, "The environment")
    async def lacking(self) -> str | None:
        return await asyncio.to_thread(found.lacking, self._config.places)

    @outside_transactions
    async def wanted(self, mirror: Path, commit: str) -> bool:
        return await flakes.ours(mirror, commit)

    @outside_transactions
    async def build(self, build: str, repo: str, mirror: Path, commit: str) -> Built | None:
        return await self.build_from(build, repo, Commit(mirror, commit))

    @telling(BuildInterrupted, "The environment")
    async def build_from(self, build: str, repo: str, source: Source) -> Built | None:
        """As `build`, whatever the source is. Raises BuildInterrupted where it is not the flake that it fails by."""
        if not await source.has_ours():
            return None
        place = await self._place(repo)
        record = await asyncio.to_thread(places.record, place, build)
        async with held(record.lock):  # as long as it is held, the build is running
            log = await asyncio.to_thread(record.fresh)
            try:
                if (lack := await asyncio.to_thread(found.lacking, self._config.places)) is not None:
                    raise BuildError(lack)
                async with held(place.lock), self._slot():
                    return await self._built(place, record, source, log)
            finally:
                os.close(log)

    async def _built(self, place: Place, record: places.Record, source: Source, log: int) -> Built:
        limit = self._config.build_seconds
        async with self._jailed(place, record, log) as jailed:
            try:
                async with asyncio.timeout(limit):
                    await jailed.lay_out(source)
                    wanted = await jailed.evaluate(found.system())
                    roots = await jailed.realise(wanted)
            except TimeoutError:
                raise BuildError(
                    jailed.failure(f"It was not built within {_spelled(limit)} (Rift:Environments:BuildFor)")
                ) from None
            if missing := await asyncio.to_thread(places.missing, place, wanted.paths):
                raise BuildError(jailed.failure(f"It was built, and there is no {missing[0]}"))
            await asyncio.to_thread(record.done, roots)
            if any(one.dropped for one in places.records(place)):
                await self._collect(jailed, place)
        return Built(place.store, wanted.paths, wanted.env, wanted.setup)

    @outside_transactions
    @telling(BuildError, "The environment")
    async def log(self, build: str, offset: int) -> LogPiece:
        return await asyncio.to_thread(self._log, build, offset)

    def _log(self, build: str, offset: int) -> LogPiece:
        record = places.known(self._config, build)
        if record is None:
            return LogPiece(b"", running=False)
        running = record.running()  # first: what is said before the end is read after this
        try:
            with record.log.open("rb") as file:
                file.seek(offset)
                return LogPiece(file.read(LOG_PIECE), running)
        except FileNotFoundError:
            return LogPiece(b"", running)

    @outside_transactions
    @telling(BuildError, "The environment")
    async def keep(self, repo: str, builds: tuple[str, ...]) -> None:
        place = await asyncio.to_thread(places.find, self._config, repo)
        if place is None:
            return
        for record in await asyncio.to_thread(places.records, place):
            if record.path.name not in builds:
                record.drop()
        with tried(place.lock) as free:  # else a build runs, which collects at its end
            if free is None or not any(one.dropped for one in places.records(place)):
                return
            if await asyncio.to_thread(found.lacking, self._config.places) is not None:
                return  # nothing can be collected without Nix
            log = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            try:
                async with self._jailed(place, None, log) as jailed:
                    await self._collect(jailed, place)
            finally:
                os.close(log)

    async def _collect(self, jailed: Jailed, place: Place) -> None:
        roots: dict[str, None] = {}
        for record in await asyncio.to_thread(places.records, place):
            if record.dropped:
                await asyncio.to_thread(places.forget, record)
            else:
                roots.update(dict.fromkeys(record.roots()))
        await jailed.collect(tuple(roots))

    @outside_transactions
    @telling(BuildError, "The environment")
    async def forget(self, repo: str) -> None:
        place = await asyncio.to_thread(places.find, self._config, repo)
        if place is None:
            return
        async with held(place.lock):
            await self._swept(place)
            await remove_tree(place.path)

    async def _place(self, repo: str) -> Place:
        await asyncio.to_thread(make_data, self._config.boxes)
        places.check(repo)
        async with locked(self._config.boxes, "uids"):
            return await asyncio.to_thread(places.make, self._config, repo)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the builds that this host does at once, whichever process does the others."""
        while True:
            for number in range(self._config.at_once):
                path = self._config.folder / f".slot-{number}"
                with tried(path) as free:
                    if free is not None:
                        yield
                        return
            await asyncio.sleep(SLOT_SECONDS)

    @asynccontextmanager
    async def _jailed(self, place: Place, record: places.Record | None, log: int) -> AsyncIterator[Jailed]:
        """What runs commands in the jails of one build, which is swept before and after."""
        host = await self._runtime.host()
        await self._swept(place)
        await asyncio.to_thread(places.make_work, self._config, place)
        async with locked(self._config.boxes, "cgroups"):
            made = await asyncio.to_thread(host.groups.make, place.group, jail.limits_of(self._config), place.uid)
        try:
            yield Jailed(self._config, host, place, made, log, record.log if record else None)
        finally:
            await self._swept(place)

    async def _swept(self, place: Place) -> None:
        """End all that there is of a build, and remove what it used. Its store stays."""
        groups = (await self._runtime.host()).groups
        await asyncio.to_thread(groups.kill, place.group)
        await places.end_leftovers(place)
        async with locked(self._config.boxes, "cgroups"):
            await groups.remove(place.group)
        await remove_tree(place.work)


def _spelled(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"
