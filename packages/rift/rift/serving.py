"""The HTTP side of the composition: what answers at which path, served until a signal comes.

A room of its own, so that a command which serves nothing does not load it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version
from urllib.parse import urlsplit

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from rift import app, audit
from rift.app import address, end, on_signals, work
from rift.deps import Deps
from rift.people import actions as people
from rift.telemetry import telling
from rift.wire.agent.routes import routes as agent_routes
from rift.wire.connections import Bounds, bounded
from rift.wire.health import health_routes
from rift.wire.mcp.guard import Guard, mcp_routes
from rift.wire.mcp.registry import Registry
from rift.wire.mcp.server import McpServer
from rift.wire.mcp.tools import TOOLS
from rift.wire.observed import Observed, fault

log = structlog.get_logger()

FILES_KEPT = 1024
"""How many open files the server may need beside its connections: agents, the database, its own."""
GRACE_SECONDS = 2
"""How long a stopping server waits for calls that are being answered."""


def web(deps: Deps) -> ASGIApp:
    """The HTTP side: `/mcp` behind its guard, the agents' door, health, and where a client learns of the guard."""
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
        calls_per_token=deps.settings.server.calls_per_token,
    )

    async def metadata(request: Request) -> Response:
        told = {"resource": f"{public}/mcp", "bearer_methods_supported": ["header"], "scopes_supported": ["rift"]}
        return JSONResponse(told)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with mcp.run():
            yield

    inside = Starlette(
        exception_handlers={Exception: fault},
        routes=[
            *mcp_routes(guard),
            *agent_routes(deps),
            *health_routes(deps),
            Route("/.well-known/oauth-protected-resource", metadata),
            Route("/.well-known/oauth-protected-resource/mcp", metadata),
        ],
        lifespan=lifespan,
    )
    return Observed(inside, clock=deps.clock, ids=deps.ids)


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


def most_connections(wanted: int) -> int:
    """As many connections as are wanted and as there may be open files, whose limit is raised as far as that needs."""
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + FILES_KEPT
    if files != resource.RLIM_INFINITY and files < needed:
        files = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        if files < needed:
            log.warning("server.few_files", connections=files * 3 // 4, wanted=wanted, files=files)
            return files * 3 // 4
    return wanted


async def serve(
    deps: Deps,
    sockets: list[socket.socket],
    ready: Callable[[], None],
    *,
    with_work: bool,
    ending: asyncio.Event | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, or until `ending` is set; `with_work` does the background work too.

    `ready` is told once requests are taken.
    """
    with telling(deps.settings, os.environ):
        await _serve(deps, sockets, ready, ending or asyncio.Event(), with_work=with_work)


async def work_until_signal(deps: Deps, ending: asyncio.Event | None = None) -> None:
    """Do background work until SIGINT or SIGTERM, or until `ending` is set.

    With a port for it, answer health and numbers meanwhile.
    """
    port = deps.settings.telemetry.worker_port
    with telling(deps.settings, os.environ), ExitStack() as held:
        if port is None:
            await app.work_until_signal(deps, ending)
            return
        listening = held.enter_context(socket.create_server(("127.0.0.1", port)))
        inside = Starlette(exception_handlers={Exception: fault}, routes=health_routes(deps))
        server = Server(_config(Observed(inside, clock=deps.clock, ids=deps.ids), 64))
        answering = asyncio.create_task(server.serve(sockets=[listening]), name="health")
        try:
            await app.work_until_signal(deps, ending)
        finally:
            server.should_exit = True
            await answering


def _config(application: ASGIApp, connections: int) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=bounded(Bounds(connections=connections)),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=65,
    )


async def _serve(
    deps: Deps, sockets: list[socket.socket], ready: Callable[[], None], ending: asyncio.Event, *, with_work: bool
) -> None:
    server = Server(_config(web(deps), most_connections(deps.settings.server.connections)))
    background = asyncio.create_task(work(deps), name="work") if with_work else None
    serving = asyncio.create_task(server.serve(sockets=sockets), name="serve")

    def stop() -> None:
        deps.signals.close()  # calls that wait answer with what there is
        server.should_exit = True

    on_signals(stop)
    told = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([serving, asyncio.create_task(server.up.wait())], return_when=asyncio.FIRST_COMPLETED)
        if server.started:
            ready()
        watched = [task for task in (serving, background, told) if task]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        stop()
        await serving
    finally:
        told.cancel()
        await end(background)
