"""The composition: everything concrete is chosen here, and nowhere else.

`connect` opens what every program needs, `web` is the HTTP side, `work` the background side.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from keel.clock import SystemClock
from keel.db import Database
from keel.ids import SystemIds
from keel.jobs import Jobs
from keel.signals import Signals
from rift import audit
from rift.boxes import jobs as boxes
from rift.commands import jobs as commands
from rift.deps import Deps
from rift.drivers.boxes.local import LocalBoxes, LocalConfig
from rift.drivers.boxes.protocol import BoxDriver
from rift.drivers.forge.local import LocalForge
from rift.drivers.forge.protocol import Forge
from rift.people import actions as people
from rift.pools import jobs as pools
from rift.repos import jobs as repos
from rift.settings import RiftSettings
from rift.tasks import jobs as tasks
from rift.wire.agent.routes import routes as agent_routes
from rift.wire.mcp.guard import Guard, mcp_routes
from rift.wire.mcp.registry import Registry
from rift.wire.mcp.server import McpServer
from rift.wire.mcp.tools import TOOLS

log = structlog.get_logger()

NOUNS = (repos, tasks, boxes, commands, pools)
"""Those that have background work, in the written order."""
GRACE_SECONDS = 2
"""How long a stopping server waits for calls that are being answered."""


@asynccontextmanager
async def connect(
    settings: RiftSettings,
    data: Path,
    url: str,
    *,
    agent_url: str = "",
    boxes: BoxDriver | None = None,
    forge: Forge | None = None,
) -> AsyncIterator[Deps]:
    """Everything a program of Rift needs, for the length of the block.

    `url` is the database's, under the runtime role; `agent_url` is where boxes' agents reach this server.
    """
    async with Database(url) as db, Signals(url) as signals:
        yield Deps(
            clock=SystemClock(),
            ids=SystemIds(),
            db=db,
            signals=signals,
            boxes=boxes or LocalBoxes(local_config(settings, data)),
            forge=forge or LocalForge(),
            settings=settings,
            data=data,
            agent_url=agent_url,
        )


def local_config(settings: RiftSettings, data: Path) -> LocalConfig:
    """How boxes on this host are made."""
    return LocalConfig(
        data=data,
        first_uid=settings.boxes.uid_base,
        show_read_only=tuple(Path(path) for path in settings.boxes.show_read_only),
        reach=settings.boxes.reach_networks,
        spool_limit=settings.commands.spool_limit,
    )


def web(deps: Deps) -> Starlette:
    """The HTTP side: `/mcp` behind its guard, the agents' door, `/healthz`, and where a client learns of the guard."""
    public = address(deps.settings)
    mcp = McpServer(
        Registry(TOOLS),
        deps,
        clock=deps.clock,
        ids=deps.ids,
        refused=lambda act, refusal: audit.refuse(deps, act, refusal),
        version=version("rift"),
    )
    guard = Guard(
        mcp,
        authenticate=lambda token: people.authenticate(deps, token),
        metadata_url=f"{public}/.well-known/oauth-protected-resource/mcp",
        hosts=[*deps.settings.server.hosts, urlsplit(public).netloc, urlsplit(public).hostname or ""],
    )

    async def healthy(request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": version("rift")})

    async def resource(request: Request) -> Response:
        told = {"resource": f"{public}/mcp", "bearer_methods_supported": ["header"], "scopes_supported": ["rift"]}
        return JSONResponse(told)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with mcp.run():
            yield

    return Starlette(
        routes=[
            *mcp_routes(guard),
            *agent_routes(deps),
            Route("/healthz", healthy),
            Route("/.well-known/oauth-protected-resource", resource),
            Route("/.well-known/oauth-protected-resource/mcp", resource),
        ],
        lifespan=lifespan,
    )


def address(settings: RiftSettings) -> str:
    """The address that people and agents use."""
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    return server.public_url or f"http://{host}:{server.port}"


async def work(deps: Deps) -> None:
    """Do background work until cancelled."""
    worker: Jobs[Deps] = Jobs(deps.db.url)
    for noun in NOUNS:
        noun.register(worker)
    worker.every("ledger.months", 60, months)
    await months(deps)
    await boxes.look_at_all(deps)
    await worker.work(deps)


async def months(deps: Deps) -> None:
    """Have the ledger's partitions of this month and the next."""
    async with deps.db.tx() as tx:
        for ahead in ("0 months", "1 month"):
            await tx.run(
                "SELECT ledger_month(%(now)s + %(ahead)s::interval)", {"now": deps.clock.now(), "ahead": ahead}
            )


class Server(uvicorn.Server):
    """uvicorn, with its signals left to us, and with a word when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's own; then `up` is set."""
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Signals are heard by `serve`."""
        yield


async def serve(deps: Deps, sockets: list[socket.socket], ready: Callable[[], None], *, with_work: bool) -> None:
    """Serve until SIGINT or SIGTERM, with or without the background work; `ready` is told once requests are taken."""
    config = uvicorn.Config(
        web(deps),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=65,
    )
    server = Server(config)
    background = asyncio.create_task(work(deps), name="work") if with_work else None
    serving = asyncio.create_task(server.serve(sockets=sockets), name="serve")

    def stop() -> None:
        deps.signals.close()  # calls that wait answer with what there is
        server.should_exit = True

    _on_signals(stop)
    try:
        await asyncio.wait([serving, asyncio.create_task(server.up.wait())], return_when=asyncio.FIRST_COMPLETED)
        if server.started:
            ready()
        await asyncio.wait([task for task in (serving, background) if task], return_when=asyncio.FIRST_COMPLETED)
        stop()
        await serving
    finally:
        await _end(background)


async def work_until_signal(deps: Deps) -> None:
    """Do background work until SIGINT or SIGTERM."""
    background = asyncio.create_task(work(deps), name="work")
    stop = asyncio.Event()
    _on_signals(stop.set)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([background, waiting], return_when=asyncio.FIRST_COMPLETED)
    await _end(background)


async def _end(task: asyncio.Task[None] | None) -> None:
    """Cancel it, and raise what it died of by itself."""
    if task is None:
        return
    if task.done():
        task.result()
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
