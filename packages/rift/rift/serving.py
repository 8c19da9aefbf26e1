"""The HTTP side of the composition: what answers at which path, served until a signal comes.

A room of its own, so that a command which serves nothing does not load it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.types import ASGIApp

from keel.web import serving
from keel.web.serving import most_connections, server
from rift import app, audit
from rift.app import address, work
from rift.deps import Deps
from rift.people import actions as people
from rift.telemetry import telling
from rift.wire.agent.door import routes as door_routes
from rift.wire.agent.routes import routes as agent_routes
from rift.wire.health import health_routes
from rift.wire.hooks.github import hook_routes
from rift.wire.hosts import hosts_of
from rift.wire.mcp.guard import Guard, mcp_routes, too_many
from rift.wire.mcp.registry import Registry
from rift.wire.mcp.server import McpServer
from rift.wire.mcp.tools import TOOLS
from rift.wire.oauth.endpoints import oauth_routes
from rift.wire.oauth.metadata import RESOURCE_PATH, metadata_routes
from rift.wire.observed import observed, on_fault
from rift.wire.web.errors import Errors
from rift.wire.web.site import web_routes, web_site


def web(deps: Deps) -> ASGIApp:
    """The HTTP side: `/mcp` behind its guard, the agents' door, health, how a client signs in, pages."""
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
        metadata_url=f"{public}{RESOURCE_PATH}",
        hosts=hosts_of(deps.settings, public),
        calls_per_token=deps.settings.server.calls_per_token,
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with mcp.run():
            yield

    inside = Starlette(
        exception_handlers=Errors(web_site(deps, public)).handlers,
        routes=[
            *mcp_routes(guard),
            *agent_routes(deps),
            *door_routes(deps),
            *health_routes(deps),
            *hook_routes(deps),
            *metadata_routes(public),
            *oauth_routes(deps),
            *web_routes(deps, public),
        ],
        lifespan=lifespan,
    )
    inside.router.redirect_slashes = False  # it would send people and tokens on to whatever host a request names
    return observed(inside, deps.clock, deps.ids)


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
        inside = Starlette(exception_handlers={Exception: on_fault}, routes=health_routes(deps))
        small = server(observed(inside, deps.clock, deps.ids), 64)
        answering = asyncio.create_task(small.serve(sockets=[listening]), name="health")
        try:
            await app.work_until_signal(deps, ending)
        finally:
            small.should_exit = True
            await answering


async def _serve(
    deps: Deps, sockets: list[socket.socket], ready: Callable[[], None], ending: asyncio.Event, *, with_work: bool
) -> None:
    background = asyncio.create_task(work(deps), name="work") if with_work else None
    most = most_connections(deps.settings.server.connections)
    full = Errors(web_site(deps, address(deps.settings))).full(too_many(most))
    # Calls that wait answer with what there is, once no more are taken.
    await serving.serve(
        server(web(deps), most, full), sockets, ready, ending,
        background=background, stopping=deps.signals.close,
    )  # fmt: skip
