"""Serving an application on sockets that are open already, until a signal comes or somebody says so."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import structlog
import uvicorn
from starlette.types import ASGIApp

from keel.ending import end, on_signals
from keel.web.connections import Bounds, bounded, busy

log = structlog.get_logger()

FILES_KEPT = 1024
"""How many open files the server may need beside its connections: agents, the database, its own."""
GRACE_SECONDS = 2
"""How long a stopping server waits for calls that are being answered."""


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


def server(application: ASGIApp, connections: int, full: ASGIApp = busy) -> Server:
    """A server for so many connections; `full` answers whoever is one too many."""
    return Server(
        uvicorn.Config(
            application,
            http=bounded(Bounds(connections=connections), full),
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=65,
        )
    )


async def serve(
    serving: Server,
    sockets: list[socket.socket],
    ready: Callable[[], None],
    ending: asyncio.Event,
    *,
    background: asyncio.Task[None] | None = None,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM, until `ending` is set, or until the background work ends, whose fault is raised.

    `ready` is told once requests are taken, `stopping` when no more are.
    """
    answering = asyncio.create_task(serving.serve(sockets=sockets), name="serve")

    def stop() -> None:
        stopping()
        serving.should_exit = True

    on_signals(stop)
    told = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([answering, asyncio.create_task(serving.up.wait())], return_when=asyncio.FIRST_COMPLETED)
        if serving.started:
            ready()
        watched = [task for task in (answering, background, told) if task]
        await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        stop()
        await answering
    finally:
        told.cancel()
        await end(background)


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
