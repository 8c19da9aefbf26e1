"""A real uvicorn on loopback, in this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from rift.wire.connections import Bounds, bounded


@asynccontextmanager
async def served(app: ASGIApp, bounds: Bounds = Bounds()) -> AsyncIterator[str]:  # noqa: B008 - it is frozen
    """Serve an application while the block lasts. Yields its address, as `http://127.0.0.1:41234`."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http=bounded(bounds), log_level="warning", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if running.done():
        await running
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await running
        listening.close()
