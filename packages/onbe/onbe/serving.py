"""The HTTP side of the composition: what answers at which path, served until a signal comes.

A room of its own, so that a command which serves nothing does not load it.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
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
    inside = Starlette(routes=_exact(routes), exception_handlers={Exception: handler(fault)})
    inside.router.redirect_slashes = False  # it would send credentials on to whatever host a request names, by http
    held = Limits(inside, deps.settings, deps.clock)
    return Observed(held, clock=deps.clock, ids=deps.ids, count=meters.request, fault=fault)


def _exact(routes: list[BaseRoute]) -> list[BaseRoute]:
    """The routes, each for its own paths alone: `$` lets a line break pass at the end of a path, and what goes by the
    path before them, as the limits, would take such a request for another.
    """
    for route in routes:
        if isinstance(route, Route):
            route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z")
    return routes


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
