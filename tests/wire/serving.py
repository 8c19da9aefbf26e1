"""A real uvicorn on loopback, in this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from keel.web.connections import Bounds, bounded
from rift.wire.mcp.guard import too_many


@asynccontextmanager
async def served(app: ASGIApp, bounds: Bounds = Bounds(), **more: Any) -> AsyncIterator[str]:  # noqa: B008 - it is frozen
    """Serve an application while the block lasts. Yields its address, as `http://127.0.0.1:41234`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with serving(app, listening, bounds, **more):
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def serving(
    app: ASGIApp,
    listening: socket.socket,
    bounds: Bounds = Bounds(),  # noqa: B008 - it is frozen
    **more: Any,
) -> AsyncIterator[None]:
    """Serve an application at a port that is taken already. `more` is for uvicorn's Config."""
    config = uvicorn.Config(app, http=bounded(bounds, too_many(bounds.connections)), log_level="warning", lifespan="on",
                            timeout_graceful_shutdown=1, **more)  # fmt: skip
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if running.done():
        await running
    try:
        yield
    finally:
        server.should_exit = True
        await running
