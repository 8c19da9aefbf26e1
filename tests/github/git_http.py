"""Git over HTTP: `git http-backend` behind a check of who may read and write. Source: git-http-backend(1)."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from tests.github import git
from tests.github.call import basic
from tests.github.events import Events
from tests.github.model import Owner, Repo, Right, Token
from tests.github.world import Missing, World

REALM = {"www-authenticate": 'Basic realm="GitHub"'}
SERVICES = ("git-upload-pack", "git-receive-pack")


def bearer(world: World, authorization: str) -> tuple[Token | None, bool]:
    """The token that came as a password, and whether what came may be believed; nothing may be."""
    if not authorization:
        return None, True
    _, word = basic(authorization)
    token = world.token(word) if word else None
    if token is None or (token.installation is not None and token.installation.suspended_at):
        return None, False
    return token, True


def found(world: World, full: str) -> tuple[Repo, bool]:
    """A repository by its name, and whether that is one of before. Raises Missing."""
    try:
        return world.repo(full), False
    except Missing:
        return world.once(full), True


def refusal(world: World, repo: Repo | None, authorization: str, writes: bool) -> tuple[Response | None, Token | None]:
    """What GitHub answers to who may not do this; None to who may."""
    token, good = bearer(world, authorization)
    if not good:
        said = "Invalid username or token. Password authentication is not supported for Git operations."
        return PlainTextResponse(said, 401, REALM), None
    right: Right = world.reach(token, repo) if repo is not None else "none"
    if repo is None or right == "none":
        if token is None:
            return PlainTextResponse("Repository not found.", 401, REALM), None
        return PlainTextResponse("Repository not found.", 404), None
    if not world.permitted(token, repo, "contents", "read"):
        return PlainTextResponse("Repository not found.", 404), None
    if not writes:
        return None, token
    if token is None:
        return PlainTextResponse("No anonymous write access.", 401, REALM), None
    if repo.archived:
        return PlainTextResponse("This repository was archived so it is read-only.", 403), None
    if right == "read" or not world.permitted(token, repo, "contents", "write"):
        if token.user is None:
            return PlainTextResponse("Write access to repository not granted.", 403), None
        return PlainTextResponse(f"Permission to {repo.full}.git denied to {token.user.login}.", 403), None
    return None, token


async def serve(world: World, events: Events, request: Request) -> Response:
    """Answer `/OWNER/NAME.git/info/refs` and the two services."""
    owner, name = request.path_params["owner"], request.path_params["name"].removesuffix(".git")
    rest = request.path_params["rest"]
    service = request.query_params.get("service", "") if rest == "info/refs" else rest
    if service not in SERVICES:
        return PlainTextResponse("Please upgrade your git client.", 403)
    writes = service == "git-receive-pack"
    with world.lock:
        try:
            repo, moved = found(world, f"{owner}/{name}")
        except Missing:
            repo, moved = None, False
        no, token = refusal(world, repo, request.headers.get("authorization", ""), writes)
        if no is not None or repo is None:
            return no or PlainTextResponse("Not Found", 404)
        if moved:
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"{world.url}/{repo.full}.git/{rest}{query}", 301)
        user = (token.user or token.app.owner) if token else None
    await asyncio.to_thread(git.made, repo.folder, repo.default_branch)
    push = secrets.token_hex(8) if rest == "git-receive-pack" else ""
    return await _backend(world, events, request, repo, rest, user, push)


class Streaming(StreamingResponse):
    """An answer that may begin while its request still comes: starlette's own listens for the client's end meanwhile,
    and takes parts of the body for it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


async def _backend(
    world: World, events: Events, request: Request, repo: Repo, rest: str, user: Owner | None, push: str
) -> Response:
    head = request.headers
    environment = git.QUIET | {
        "GIT_PROJECT_ROOT": str(repo.folder), "PATH_INFO": f"/{unquote(rest)}", "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.method, "QUERY_STRING": request.url.query, "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": head.get("content-type", ""), "CONTENT_LENGTH": head.get("content-length", ""),
        "HTTP_CONTENT_ENCODING": head.get("content-encoding", ""), "GIT_PROTOCOL": head.get("git-protocol", ""),
        "REMOTE_USER": user.login if user else "", "STANDIN_PUSH": push,
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
    }  # fmt: skip
    environment = {name: value for name, value in environment.items() if value}
    process = await asyncio.create_subprocess_exec(
        "git", "http-backend", env=environment,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    feeding = asyncio.create_task(_feed(process, request))
    status, headers = 200, {}
    while line := (await process.stdout.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        if name.lower() == "status":
            status = int(value.split()[0])
        else:
            headers[name.lower()] = value.strip()

    async def body() -> AsyncIterator[bytes]:
        assert process.stdout is not None
        try:
            while part := await process.stdout.read(65_536):
                yield part
            await process.wait()
            if push:
                await asyncio.to_thread(received, world, events, repo, user, push)
        finally:
            feeding.cancel()
            _end(process)
            await process.wait()

    return Streaming(body(), status, headers)


async def _feed(process: asyncio.subprocess.Process, request: Request) -> None:
    """Give git the request's body; a client that hangs up then waits for nothing any more, so git ends."""
    assert process.stdin is not None
    with suppress(ConnectionError, ClientDisconnect):
        async for part in request.stream():
            process.stdin.write(part)
            await process.stdin.drain()
    process.stdin.close()
    while (await request.receive())["type"] != "http.disconnect":
        pass
    _end(process)


def _end(process: asyncio.subprocess.Process) -> None:
    """End git with what it has started, which counts and packs for long after nobody listens."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def received(world: World, events: Events, repo: Repo, user: Owner | None, push: str) -> None:
    """Tell of what a push through git changed: the hook wrote it down."""
    note = repo.folder / "pushes" / push
    if not note.exists():
        return
    changed = [line.split() for line in note.read_text().splitlines()]
    note.unlink()
    pushed = [git.changed(repo.folder, ref, before, after) for before, after, ref in changed]
    events.push(repo, pushed, user or repo.owner)
