"""A gate as boxes have one: git's smart HTTP on one side, a forge's sessions on the other."""

from __future__ import annotations

import asyncio
import gzip
import os
from pathlib import Path

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from rift.drivers.forge.protocol import FEED_BYTES, Forge, ForgeError, Part, Service

CLIENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a",
    "LC_ALL": "C.UTF-8",
}


class Gate:
    """Serves one repository of a forge at `url`; `sessions` are those that were opened and not closed."""

    def __init__(self, forge: Forge, origin: str, mirror: Path) -> None:
        self._forge = forge
        self._origin = origin
        self._mirror = mirror
        self.sessions: set[str] = set()

    async def __aenter__(self) -> Gate:
        config = uvicorn.Config(
            self._asked, host="127.0.0.1", port=0, log_level="warning", lifespan="off", interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/app.git"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        await self._task

    async def _asked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plain ASGI: a streaming response of Starlette's would read the request's body for itself."""
        request = Request(scope, receive)
        part: Part = "refs" if request.method == "GET" else "rpc"
        name = request.query_params["service"] if part == "refs" else request.url.path.rpartition("/")[2]
        service: Service = "receive-pack" if name == "git-receive-pack" else "upload-pack"
        version = int(request.headers.get("git-protocol", "version=0").partition("=")[2])
        try:
            session = await self._forge.open(self._mirror, self._origin, service, part, version)
        except ForgeError as error:
            await PlainTextResponse(error.reason, 502)(scope, receive, send)
            return
        self.sessions.add(session)
        kind = "advertisement" if part == "refs" else "result"
        headers = [(b"content-type", f"application/x-git-{service}-{kind}".encode())]
        feeding = asyncio.create_task(self._feed(request, session))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while (told := await self._forge.drain(session)) is not None:
                await send({"type": "http.response.body", "body": told, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            feeding.cancel()
            await asyncio.wait([feeding])
            await self._forge.close(session)
            self.sessions.discard(session)

    async def _feed(self, request: Request, session: str) -> None:
        if request.headers.get("content-encoding") == "gzip":
            await self._forge.feed(session, gzip.decompress(await request.body()), last=True)
            return
        async for part in request.stream():
            for start in range(0, len(part), FEED_BYTES):
                await self._forge.feed(session, part[start : start + FEED_BYTES], last=False)
        await self._forge.feed(session, b"", last=True)


async def client(*words: str, folder: Path, fails: bool = False) -> str:
    """What git says to whoever types it in a folder, both streams. Raises AssertionError where it ends otherwise."""
    process = await asyncio.create_subprocess_exec(
        "git", *words, cwd=folder, env=CLIENT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    text = out.decode("utf-8", "replace")
    assert (process.returncode != 0) is fails, text
    return text
