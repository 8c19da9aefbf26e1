"""Three requests: ask for work, tell what happened, answer a question. 410 means: that agent is over, end.

Bodies are read with bounds and believed only in their shape; a body out of shape is 400 with the reason.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from keel.db import Busy
from keel.sizes import KIB, MIB
from keel.telemetry import logs
from rift import meters
from rift.agents import actions
from rift.agents.model import WHYS, Agent, Event, Failed, Refused, Up
from rift.commands.model import Author, End, Told
from rift.deps import Deps
from rift.names import TAIL_BYTES

BODY_MOST = 4 * MIB
UNKNOWN_MOST = 64 * KIB
"""How much of a body is read before it is known whose it is."""
REASON_MOST = 16_384
SETUP_MOST = MIB + KIB
"""How much of a setup's output an agent tells, in bytes."""
EVENTS_MOST = 256
HOST = re.compile(r"[a-z0-9._:-]{0,253}")
"""What an agent tells of the host that a jail asked for: the jail chose it."""


class Malformed(Exception):
    """A body out of shape."""


def routes(deps: Deps) -> list[Route]:
    """The agents' routes, for the application to mount at its root."""

    async def work(agent: Agent, body: Mapping[str, Any]) -> Response:
        found = await actions.work(deps, agent, _told(body), _power(body), _seconds(body))
        if found is None:
            return _over()
        said: dict[str, object] = {
            "commands": found.commands,
            "stops": found.stops,
            "asks": found.asks,
            "power": list(found.power),
        }
        if found.author is not None:
            said["author"] = {"name": found.author.name, "email": found.author.email}
        if found.delivery is not None:
            said["secrets"] = {"version": found.delivery.version, "values": dict(found.delivery.values)}
        return JSONResponse(said)

    async def events(agent: Agent, body: Mapping[str, Any]) -> Response:
        listed = body.get("events")
        if not isinstance(listed, list) or len(listed) > EVENTS_MOST:
            raise Malformed(f"events is a list of at most {EVENTS_MOST}")
        return JSONResponse({}) if await actions.events(deps, agent, [_event(one) for one in listed]) else _over()

    async def answers(agent: Agent, body: Mapping[str, Any]) -> Response:
        size = body.get("size")
        known = await actions.answer(
            deps,
            agent,
            _text(body.get("id", ""))[:64],
            _whole(body, "first"),
            None if size is None else _whole(body, "size"),
            _bytes(body, "data", BODY_MOST),
        )
        return JSONResponse({}) if known else _over()

    return [
        Route("/agent/v1/{box}/{incarnation:int}/work", _door(deps, work, parks=True), methods=["POST"]),
        Route("/agent/v1/{box}/{incarnation:int}/events", _door(deps, events), methods=["POST"]),
        Route("/agent/v1/{box}/{incarnation:int}/answers", _door(deps, answers), methods=["POST"]),
    ]


def _door(
    deps: Deps, handle: Callable[[Agent, Mapping[str, Any]], Any], *, parks: bool = False
) -> Callable[[Request], Any]:
    async def door(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return _error("an agent's bearer token is needed", 401)
        agent = Agent(_text(request.path_params["box"]), request.path_params["incarnation"], token)
        try:
            if _large(request) and not await actions.known(deps, agent):
                return _over()  # unread: what a stranger sends costs no memory
            body = json.loads(await _body(request))
            if not isinstance(body, dict):
                raise Malformed("the body is an object")
            answer = handle(agent, body)
            if parks:
                with meters.POLLS.track_inprogress():
                    return await _while_heard(request, answer)
            response: Response = await answer
        except Busy:
            return _error("busy: say it again", 503)
        except (Malformed, ValueError, TypeError, LookupError, RecursionError, OverflowError) as error:
            return _error(str(error)[:200] or "the body is out of shape", 400)
        return response

    return door


async def _while_heard(request: Request, answer: Coroutine[Any, Any, Response]) -> Response:
    """The answer, given up when the agent hangs up: a command claimed later would be lost with it."""
    answering, hung_up = asyncio.create_task(answer), asyncio.create_task(_hang_up(request))
    try:
        await asyncio.wait({answering, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        return answering.result() if answering.done() else Response(status_code=408)
    finally:
        answering.cancel()
        hung_up.cancel()
        await asyncio.gather(answering, hung_up, return_exceptions=True)


async def _hang_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":  # the body may come to its end once more
        pass


def _large(request: Request) -> bool:
    """Whether a body is large, or hides its size."""
    length = request.headers.get("content-length", "")
    return not length.isdecimal() or len(length) > 9 or int(length) > UNKNOWN_MOST


async def _body(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > BODY_MOST:
            raise Malformed(f"the body has more than {BODY_MOST} bytes")
        parts.append(part)
    return b"".join(parts)


def _over() -> Response:
    return _error("this box, or this start of its agent, is over", 410)


def _error(text: str, status: int) -> Response:
    return JSONResponse({"error": text, "request": logs.request_id()}, status)


def _seconds(body: Mapping[str, Any]) -> float:
    wait = float(body.get("wait", 0))
    if not math.isfinite(wait):
        raise Malformed("wait is a number of seconds")
    return wait


def _told(body: Mapping[str, Any]) -> Told:
    author = body.get("author")
    return Told(
        frozenset(int(n) for n in body.get("known", ())),
        frozenset(int(n) for n in body.get("stopping", ())),
        frozenset(str(id) for id in body.get("answering", ())),
        _whole(body, "secrets") if "secrets" in body else 0,
        Author(_text(author["name"]), _text(author["email"])) if author else None,
    )


def _power(body: Mapping[str, Any]) -> tuple[int, bool] | None:
    power = body.get("power")
    return (int(power[0]), bool(power[1])) if power else None


def _event(one: object) -> Event:
    if not isinstance(one, dict):
        raise Malformed("an event is an object")
    kind = one.get("type")
    if kind == "up":
        return Up()
    if kind == "failed":
        return _failed(one)
    if kind == "ended":
        reason, exit = one.get("reason"), one.get("exit")
        return End(
            _whole(one, "n"),
            None if exit is None else _whole(one, "exit", below=2**31),
            None if reason is None else _text(reason)[:REASON_MOST],
            _whole(one, "size"),
            _bytes(one, "tail", TAIL_BYTES),
            _text(one["media"])[:100] if one.get("media") else None,
            one.get("ran") is not False,
            _times(one.get("times")),
        )
    if kind == "refused":
        return _refused(one)
    raise Malformed(f"there is no event {str(kind)[:40]}")


def _failed(one: Mapping[str, Any]) -> Failed:
    reason = _text(one.get("reason"))[:REASON_MOST] or "no reason was given"
    if one.get("setup") is not True:
        return Failed(reason)
    printed = _text(_bytes(one, "output", SETUP_MOST).decode("utf-8", "replace")).rstrip()
    return Failed(reason + (f". It printed:\n{printed}" if printed else ". It printed nothing."), setup=True)


def _times(told: object) -> tuple[float, ...]:
    """Two or three instants; what is none of that is left out: no end is lost over when it was."""
    if not isinstance(told, list) or len(told) not in (2, 3):
        return ()
    fit = [float(one) for one in told if isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < 1e11]
    return tuple(fit) if len(fit) == len(told) else ()


def _refused(one: Mapping[str, Any]) -> Refused:
    host, why = one.get("host"), one.get("why")
    if not isinstance(host, str) or not HOST.fullmatch(host):
        raise Malformed("host is a host's name or address in lower case, or empty")
    if why not in WHYS:
        raise Malformed(f"why is one of {', '.join(sorted(WHYS))}")
    count = _whole(one, "count", below=2**31)
    if count == 0:
        raise Malformed("count is at least 1")
    return Refused(_whole(one, "n", below=2**32), host, _whole(one, "port", below=100_000), str(why), count)


def _whole(body: Mapping[str, Any], name: str, below: int = 2**62) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < below:
        raise Malformed(f"{name} is a whole number from 0, below {below}")
    return value


def _bytes(body: Mapping[str, Any], name: str, most: int) -> bytes:
    try:
        data = base64.b64decode(str(body.get(name, "")), validate=True)
    except binascii.Error as error:
        raise Malformed(f"{name} is base64") from error
    if len(data) > most:
        raise Malformed(f"{name} has more than {most} bytes")
    return data


def _text(value: object) -> str:
    """What the database can hold: no NUL, no half surrogate."""
    return str(value).encode("utf-8", "replace").decode().replace("\0", "\ufffd")
