"""The door's requests, as a box's agent hands them on: the same token check as its other requests, at each of them.

Bodies are streamed both ways. Nobody's words of a jail are believed: method and path come through the agent's list and
through these routes, git's requests are read strictly before they go on.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from keel.db import Busy
from keel.ids import digest
from keel.refusal import Refusal
from keel.secrecy import masked
from keel.sizes import GIB, MIB
from keel.web.connections import PATIENCE
from rift.audit import NotBegun
from rift.deps import Deps
from rift.drivers.carrier.protocol import CarrierError
from rift.drivers.forge.packets import BadRequest
from rift.drivers.forge.protocol import ForgeError
from rift.pulls import actions as pulls
from rift.transfers import actions as transfers
from rift.transfers.model import Asked as LfsAsked
from rift.transfers.model import Sent
from rift.verbs import actions
from rift.verbs.actions import Withdrawn
from rift.verbs.decide import Inflated
from rift.verbs.model import Answer, Asked, Over, Speaker
from rift.wire.agent.telling import data_of, exit_of, text_of
from rift.wire.refusals import refusal_text

MOST = 24
"""Requests of one box at once; its agent lets fewer through."""
FETCH_BYTES = 64 * MIB
"""The most that a fetch may ask with, unpacked."""
PUSH_BYTES = 16 * GIB
IDLE_SECONDS = 600.0
"""A body may stand still for so long: git counts and packs in the middle of one."""
VERB_BYTES = 1 * MIB
LFS_BYTES = 1 * MIB
DRAIN_SECONDS = 60.0
_VERSION = re.compile(r"(?:^|:)version=([12])(?:$|:)")
Context = AbstractAsyncContextManager[Answer | Refusal | Over]
log = structlog.get_logger()
_asking: Counter[str] = Counter()


class Malformed(Exception):
    """A request out of shape; the text says how."""


def routes(deps: Deps) -> list[Route]:
    """The door's routes, for the application to mount at its root."""
    door = "/agent/v1/{box}/{incarnation:int}/door"
    repository = f"{door}/git/{{owner}}/{{name}}"

    def git(request: Request, speaker: Speaker) -> Context:
        return actions.git(deps, speaker, _asked(request))

    @asynccontextmanager
    async def verb(request: Request, speaker: Speaker) -> AsyncIterator[Answer | Refusal | Over]:
        found = await pulls.verb(deps, speaker, request.path_params["verb"], await _given(request))
        if isinstance(found, Refusal | Over):
            yield found
            return
        told = {"exit": exit_of(found), "text": text_of(found), "data": data_of(found)}
        body = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
        yield Answer(200, "application/json", _once(body), len(body))

    @asynccontextmanager
    async def lfs(request: Request, speaker: Speaker) -> AsyncIterator[Answer | Refusal | Over]:
        body = b"".join([part async for part in body_of(request, LFS_BYTES)])
        method: Literal["GET", "POST"] = "GET" if request.method == "GET" else "POST"
        asked = LfsAsked(_repository(request), method, request.path_params["path"], request.url.query, body)
        answer = await transfers.api(deps, speaker, asked)
        yield _lfs_words(answer) if isinstance(answer, Refusal) else answer

    def file(request: Request, speaker: Speaker) -> Context:
        told = request.headers
        body = body_of(request, PUSH_BYTES) if request.method != "GET" else None
        token, kind, length = request.path_params["token"], told.get("content-type", ""), told.get("content-length", "")
        return transfers.transfer(deps, speaker, Sent(request.method, token, kind, length, body))

    return [
        Route(f"{repository}/info/refs", _door(deps, git), methods=["GET"]),
        Route(f"{repository}/git-{{service}}", _door(deps, git), methods=["POST"]),
        Route(f"{door}/verbs/{{verb}}", _door(deps, verb), methods=["POST"]),
        Route(f"{repository}/info/lfs/{{path:path}}", _door(deps, lfs), methods=["GET", "POST"]),
        Route(f"{door}/lfs/{{token}}", _door(deps, file), methods=["GET", "PUT", "POST"]),
    ]


def _door(deps: Deps, begin: Callable[[Request, Speaker], Context]) -> Callable[[Request], Any]:
    async def door(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return plain_text("an agent's bearer token is needed", 401)
        box = request.path_params["box"]
        speaker = Speaker(box, request.path_params["incarnation"], digest(token))
        try:
            if not await actions.speaks(deps, speaker):  # unread and uncounted: it takes no place of the box's
                return _over()
        except Busy:
            return _busy()
        if _asking[box] >= MOST:
            return plain_text(f"This box has {MOST} requests at Rift's door. Try again.", 503)
        return Carried(request, begin, speaker)

    return door


class Carried(Response):
    """The answer to one request at the door, while its context is open."""

    def __init__(self, request: Request, begin: Callable[[Request, Speaker], Context], speaker: Speaker) -> None:
        super().__init__()
        self._request, self._begin, self._speaker = request, begin, speaker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _asking[self._speaker.box] += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            _asking[self._speaker.box] -= 1
            if not _asking[self._speaker.box]:
                del _asking[self._speaker.box]

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        said: Response | None = None
        begun = False
        try:
            async with self._begin(self._request, self._speaker) as answer:
                begun = isinstance(answer, Answer)
                if isinstance(answer, Answer):
                    await _stream(answer, send)
                else:
                    said = _over()
                    if isinstance(answer, Refusal):
                        said = plain_text(refusal_text(answer), 403)
                    await self._drain()
        except (Busy, NotBegun):
            if begun:
                raise  # an answer has gone out, and none can come after it
            said = _busy()
        except (Malformed, BadRequest) as error:
            said = plain_text(f"Rift does not take this request: {error}.", 400)
        except ClientDisconnect:
            return
        except (ForgeError, CarrierError, Withdrawn) as error:
            # Its answer had begun: it is broken off, so that nobody takes it for whole.
            log.warning("door.broken_off", box=self._speaker.box, reason=masked(str(error)))
            raise
        if said is not None:
            await said(scope, receive, send)

    async def _drain(self) -> None:
        """Take the rest of a body that nobody reads: git reads an answer after it has sent everything."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in self._request.stream():
                    pass
        except (TimeoutError, RuntimeError):  # RuntimeError: it was read to its end
            return


async def _stream(answer: Answer, send: Send) -> None:
    headers = [(b"content-type", answer.type.encode("latin-1")), (b"cache-control", b"no-cache")]
    if answer.length is not None:
        headers.append((b"content-length", str(answer.length).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    async for part in answer.parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _over() -> Response:
    return plain_text("this box, or this start of its agent, is over", 410)


def _busy() -> Response:
    return plain_text("Rift is busy: try again.", 503)


def plain_text(text: str, status: int) -> Response:
    """Words that git prints line by line."""
    return PlainTextResponse(f"{text}\n", status)


def _asked(request: Request) -> Asked:
    refs = request.method == "GET"
    service = request.query_params.get("service", "") if refs else f"git-{request.path_params['service']}"
    if service not in ("git-upload-pack", "git-receive-pack"):
        raise Malformed("git has no such service")
    kind = request.headers.get("content-type", "")
    if not refs and kind != f"application/x-{service}-request":
        raise Malformed("its type is none of git's")
    found = _VERSION.search(request.headers.get("git-protocol", ""))
    reads = service == "git-upload-pack"
    return Asked(
        _repository(request),
        "upload-pack" if reads else "receive-pack",
        refs,
        int(found[1]) if found else 0,
        body_of(request, FETCH_BYTES if reads else PUSH_BYTES),
        refusal_text,
    )


def _repository(request: Request) -> str:
    return f"{request.path_params['owner']}/{request.path_params['name']}"


def _lfs_words(refusal: Refusal) -> Answer:
    """A refusal as git-lfs prints it."""
    body = json.dumps({"message": refusal_text(refusal)}).encode()
    return Answer(403, "application/vnd.git-lfs+json", _once(body), len(body))


async def _given(request: Request) -> dict[str, Any]:
    """What a verb is asked with."""
    try:
        given = json.loads(b"".join([part async for part in body_of(request, VERB_BYTES)]))
    except (ValueError, RecursionError) as error:
        raise Malformed("its body is no JSON") from error
    if not isinstance(given, dict):
        raise Malformed("its body is an object")
    return given


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def body_of(request: Request, most: int) -> AsyncIterator[bytes]:
    """A request's body, plain, at most so many bytes. Raises BadRequest."""
    patience = request.scope.get("extensions", {}).get(PATIENCE)
    if patience is not None:
        patience["be"](IDLE_SECONDS)
    encoding = request.headers.get("content-encoding", "identity")
    inflated = Inflated(most) if encoding == "gzip" else None
    if inflated is None and encoding != "identity":
        raise BadRequest("its body is encoded in a way that is not taken")
    size = 0
    async for part in request.stream():
        if inflated is not None:
            for piece in inflated.feed(part):
                yield piece
        elif part:
            size += len(part)
            if size > most:
                raise BadRequest(f"its body has more than {most} bytes")
            yield part
    if inflated is not None:
        inflated.end()
