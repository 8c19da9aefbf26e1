"""The HTTP side of the composition: what answers at which path, served until a signal comes.

A room of its own, so that a command which serves nothing does not load it.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from keel.web import serving
from keel.web.observed import Observed, handler
from keel.web.serving import most_connections, server
from onbe import meters
from onbe.app import work
from onbe.deps import Deps
from onbe.telemetry import telling
from onbe.wire import admin, audit, development, health
from onbe.wire.faults import fault
from onbe.wire.limits import Limits
from onbe.wire.oauth import discovery, introspect, revoke, token


def web(deps: Deps) -> ASGIApp:
    """Every path that Onbe answers at."""
    routes: list[BaseRoute] = [
        *health.routes(deps),
        *admin.routes(deps),
        *audit.routes(deps),
        *token.routes(deps),
        *revoke.routes(deps),
        *introspect.routes(deps),
        *development.routes(deps),
        *discovery.routes(deps),
    ]
    inside = Starlette(routes=routes, exception_handlers={Exception: handler(fault)})
    held = Limits(inside, deps.settings, deps.clock)
    return Observed(held, clock=deps.clock, ids=deps.ids, count=meters.request, fault=fault)


async def serve(
    deps: Deps, sockets: list[socket.socket], ready: Callable[[], None], ending: asyncio.Event | None = None
) -> None:
    """Serve, and do the background work, until SIGINT or SIGTERM, or until `ending` is set.

    `ready` is told once requests are taken.
    """
    with telling(deps.settings, os.environ):
        background = asyncio.create_task(work(deps), name="work")
        most = most_connections(deps.settings.server.connections)
        ending = ending or asyncio.Event()
        await serving.serve(server(web(deps), most), sockets, ready, ending, background=background)
