"""A live Onbe on a port of this machine, which can be taken away and brought back; and tool servers beside it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from tests.behaviour.onbe.world import PROVIDER, World, world_of
from tests.unit.onbe.client.stage import FakeWorld

from keel.testing import FakeClock
from keel.testing.plugin import FreshDatabase
from onbe.drivers.signing.fake import FakeSigning
from onbe.serving import web
from onbe.settings import AgentSettings, OnbeSettings, ServerSettings, SubjectSettings, TokenSettings


class Port:
    """An application on a port; the port stays its own while it is down, when connections are refused."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.number = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.number}"
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def up(self, app: ASGIApp) -> None:
        listening = socket.create_server(("127.0.0.1", self.number), reuse_port=False)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="auto", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server._serve([listening]))
        while not self._server.started:
            assert not self._serving.done(), self._serving.exception()
            await asyncio.sleep(0.005)

    async def down(self) -> None:
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait([self._serving])
            self._server = self._serving = None


@asynccontextmanager
async def served(app: ASGIApp, port: Port | None = None) -> AsyncIterator[Port]:
    """An application, for the length of the block."""
    port = port or Port()
    await port.up(app)
    try:
        yield port
    finally:
        await port.down()


class Timeline(FakeWorld):
    """A client's world on the server's clock, in which something happens at its time, also while everybody waits."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self._begun = clock.monotonic()
        self._coming: list[tuple[float, Callable[[], Awaitable[None]]]] = []

    def at(self, seconds: float, do: Callable[[], Awaitable[None]]) -> None:
        """So many seconds after the beginning."""
        self._coming.append((self._begun + seconds, do))
        self._coming.sort(key=lambda one: one[0])

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await self.happen()

    async def pass_by(self, seconds: float) -> None:
        """Move the clock on."""
        self.clock.advance(seconds)
        await self.happen()

    async def happen(self) -> None:
        while self._coming and self._coming[0][0] <= self.monotonic():
            _, do = self._coming.pop(0)
            await do()

    @property
    def elapsed(self) -> float:
        return self.monotonic() - self._begun


@dataclass
class Live:
    """A world whose Onbe is on a port."""

    world: World
    port: Port
    app: ASGIApp = field(repr=False)

    @property
    def issuer(self) -> str:
        return self.port.url

    async def go_away(self) -> None:
        await self.port.down()

    async def come_back(self) -> None:
        await self.port.up(self.app)

    def key(self, agent: str) -> dict[str, Any]:
        """An agent's private JWK."""
        return dict(self.world.agents[agent].as_dict(private=True))


@asynccontextmanager
async def live_onbe(
    database: FreshDatabase,
    clock: FakeClock,
    agents: AgentSettings | None = None,
    tokens: TokenSettings | None = None,
    **drivers: Any,
) -> AsyncIterator[Live]:
    """Onbe on a port, which is its issuer's address too."""
    port = Port()
    settings = OnbeSettings(
        server=ServerSettings(public_url=port.url),
        subjects=SubjectSettings(issuer=PROVIDER, audiences=("onbe",)),
        agents=agents or AgentSettings(),
        tokens=tokens or TokenSettings(),
    )
    async with world_of(database, clock, settings, signing=FakeSigning(port.url), **drivers) as world:
        app = web(world.deps)
        async with served(app, port):
            yield Live(world, port, app)
