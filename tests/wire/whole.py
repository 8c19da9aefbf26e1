"""A whole Rift in this process: real database, web side and background work, with boxes and a forge in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from tests.wire.serving import served

from keel.ending import end
from keel.refusal import Refusal
from keel.testing import eventually
from keel.testing.plugin import FreshDatabase
from rift import app, serving
from rift.deps import Deps
from rift.drivers.boxes.fake import FakeBoxes
from rift.drivers.forge.fake import FakeForge
from rift.drivers.nix.fake import FakeBuilder
from rift.origins import actions as origins
from rift.people import actions as people
from rift.settings import RiftSettings

ORIGIN = "https://git.example/acme/app.git"
COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
EMAIL = "ada@example.org"


@dataclass
class Whole:
    """Where it is, a token of its one person, and what it is made of."""

    url: str
    token: str
    deps: Deps
    boxes: FakeBoxes
    forge: FakeForge
    builder: FakeBuilder


@asynccontextmanager
async def whole_rift(database: FreshDatabase, data: Path) -> AsyncIterator[Whole]:
    """One person, an admin, with the repository acme/app and its branches main and dev; nothing is watched yet."""
    place: list[str] = []

    async def post(path: str, body: dict[str, Any], token: str) -> tuple[int, dict[str, Any]]:
        try:
            answer = await agents.post(place[0] + path, json=body, headers={"Authorization": f"Bearer {token}"})
        except httpx2.TransportError as error:
            raise OSError(str(error)) from error
        return answer.status_code, answer.json() if answer.status_code == 200 else {}

    boxes, forge, builder = FakeBoxes(post), FakeForge(), FakeBuilder()
    forge.repositories[ORIGIN] = {"main": COMMIT, "dev": COMMIT}
    async with (
        httpx2.AsyncClient(timeout=60) as agents,
        app.connect(RiftSettings(), data, database.runtime, boxes=boxes, forge=forge, builder=builder) as deps,
        served(serving.web(deps)) as where,
    ):
        place.append(where)
        working = asyncio.create_task(app.work(deps))
        try:
            await eventually(lambda: _working(deps), within=60)  # a test may take tables away: not before it has begun
            yield Whole(f"{where}/mcp", await _someone(deps), deps, boxes, forge, builder)
        finally:
            await end(working)
            for box in await boxes.inventory():
                await boxes.destroy(box)


async def _working(deps: Deps) -> bool:
    """Whether the background work has done what it does at its beginning, and takes jobs."""
    async with deps.db.tx() as tx:
        return bool(await tx.run("SELECT FROM procrastinate_workers"))


async def _someone(deps: Deps) -> str:
    await people.add_user(deps, EMAIL, admin=True)
    made = await people.new_token(deps, EMAIL, "Claude")
    added = await origins.add_repo(deps, EMAIL, "acme/app", ORIGIN)
    if isinstance(made, Refusal) or isinstance(added, Refusal):
        raise RuntimeError(f"the test's person or repository could not be made: {made} {added}")
    return made[1]
