"""The stand-in on a port of loopback, in a thread of its own, so that tests of any kind may wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.github import git_http, oauth
from tests.github.api import Rest
from tests.github.events import Events
from tests.github.lfs import Lfs
from tests.github.pages import Pages
from tests.github.world import World


class Wire:
    """Everything that is answered, below one address."""

    def __init__(self, world: World, events: Events) -> None:
        self.world = world
        self.events = events
        self.rest = Rest(world, events)
        self.lfs = Lfs(world)
        self.pages = Pages(world, events)
        self.device_every = 5

    def app(self) -> Starlette:
        pages, lfs, git = self.pages, self.lfs, "/{owner}/{name}"
        both = ["GET", "POST"]
        return Starlette(routes=[
            Route("/api/v3/{path:path}", self.rest.serve, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
            Route("/login", pages.login, methods=both),
            Route("/login/oauth/authorize", pages.authorize, methods=both),
            Route("/login/oauth/access_token", self._tokens, methods=["POST"]),
            Route("/login/device/code", self._begin, methods=["POST"]),
            Route("/login/device", pages.device, methods=both),
            Route("/settings/apps/new", pages.new_app, methods=both),
            Route("/organizations/{org}/settings/apps/new", pages.new_app, methods=both),
            Route("/apps/{slug}/installations/new", pages.install, methods=both),
            Route("/github-apps/{slug}/installations/new", pages.install, methods=both),
            Route("/_logs/{secret}", self._log),
            Route("/_lfs/{repo:int}/{oid}", lfs.store, methods=["GET", "PUT"]),
            Route("/_lfs/{repo:int}/{oid}/verify", lfs.verify, methods=["POST"]),
            Route(f"{git}/info/lfs/objects/batch", lfs.batch, methods=["POST"]),
            Route(f"{git}/info/lfs/locks/verify", lfs.verify_locks, methods=["POST"]),
            Route(f"{git}/info/lfs/locks", lfs.locks, methods=both),
            Route(f"{git}/{{rest:path}}", self._git, methods=both),
        ])  # fmt: skip

    async def _git(self, request: Request) -> Response:
        return await git_http.serve(self.world, self.events, request)

    async def _begin(self, request: Request) -> Response:
        given = await oauth.fields(request)
        with self.world.lock:
            status, told = oauth.begin(self.world, given, self.device_every)
        return oauth.answer(request, told, status)

    async def _tokens(self, request: Request) -> Response:
        given = oauth.client(self.world, request, await oauth.fields(request))
        with self.world.lock:
            return oauth.answer(request, oauth.tokens(self.world, given))

    async def _log(self, request: Request) -> Response:
        found = self.world.logs.get(request.path_params["secret"])
        return PlainTextResponse(found.log or "") if found else PlainTextResponse("ResourceNotFound", 404)


class Server:
    """uvicorn in a thread. `start` returns once requests are taken."""

    def __init__(self, app: Starlette) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", lifespan="off", loop="asyncio", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="github", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(30):
            raise TimeoutError("the stand-in GitHub does not serve")

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        self._ready.set()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
