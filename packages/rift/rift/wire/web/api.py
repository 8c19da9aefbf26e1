"""The JSON API of secrets, for a browser that is signed in: what its page does, for a script.

    GET    /api/repos/{owner}/{name}/secrets             names, and when each was set
    PUT    /api/repos/{owner}/{name}/secrets/{secret}    {"value": "…"}
    DELETE /api/repos/{owner}/{name}/secrets/{secret}

Its caller is a browser's session alone, by its cookie: a client's bearer token is refused, whoever's it is, since a
value would go through an agent's transcript (docs/secrets.md). A change needs the page's token, `X-CSRF-Token`, and
comes from this origin. A refusal is a problem document (RFC 9457) with its mends.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from keel.db import within
from keel.refusal import Refusal
from keel.sizes import KIB
from rift.secrets import actions
from rift.secrets.decide import decide_name
from rift.secrets.model import Secret
from rift.secrets.refusals import no_token_here, not_signed_in
from rift.sessions import actions as sessions
from rift.times import rfc3339
from rift.wire.refusals import refusal_problem
from rift.wire.web import refusals
from rift.wire.web.visit import Site, Visit, headers, parse_json

PATH = "/api/repos/{owner}/{name}/secrets"
BODY_BYTES = 512 * KIB
"""A value of 64 KiB as JSON, each of whose bytes may be spelled by six characters."""
SECONDS = 45.0
STATUS = {"not_signed_in": 401, "no_token_here": 403, "foreign_form": 403, "needs_admin": 403, "form_too_large": 413,
          "bad_form": 400, "secret_name": 422, "secret_name_taken": 422, "secret_value": 422, "no_such_secret": 404,
          "which_repository": 409, "secrets_unusable": 503}  # fmt: skip

Answer = Callable[[Visit], Awaitable[Response | Refusal]]


def api_routes(site: Site) -> list[Route]:
    """The API's routes."""
    return [
        Route(PATH, _door(site, {"GET": listed}), methods=["GET"]),
        Route(f"{PATH}/{{secret}}", _door(site, {"PUT": put, "DELETE": remove}), methods=["PUT", "DELETE"]),
    ]


async def listed(visit: Visit) -> Response | Refusal:
    """Every secret's name."""
    found = await actions.of_repo(visit.deps, visit.caller, _repo(visit))
    if isinstance(found, Refusal):
        return found
    return _json(visit, {"repo": found.repo.full, "secrets": [_told(one) for one in found.secrets]})


async def put(visit: Visit) -> Response | Refusal:
    """Set one, exactly as it is sent: 201 where there was none, else 200."""
    repo, name = _repo(visit), visit.request.path_params["secret"]
    value = visit.json.get("value") if isinstance(visit.json, dict) else None
    if not isinstance(value, str):
        return refusals.bad_form()
    done = await actions.put(visit.deps, visit.act("set secret", repo=repo, name=_sure(name)), repo, name, value)
    return done if isinstance(done, Refusal) else _json(visit, _told(done.secret), 201 if done.fresh else 200)


async def remove(visit: Visit) -> Response | Refusal:
    """Remove one: 204."""
    repo, name = _repo(visit), visit.request.path_params["secret"]
    done = await actions.remove(visit.deps, visit.act("remove secret", repo=repo, name=_sure(name)), repo, name)
    return done if isinstance(done, Refusal) else Response(status_code=204, headers=headers(visit.site))


def _door(site: Site, answers: dict[str, Answer]) -> Callable[[Request], Awaitable[Response]]:
    """What stands before each of them, in this order: host, token, session, origin, body."""

    async def door(request: Request) -> Response:
        if (other := site.hosts.refused(request)) is not None:
            return other
        async with within(SECONDS, "the API of secrets"):
            handler = answers.get(request.method, answers.get("GET"))
            assert handler is not None  # HEAD is GET's
            visit = await _visit(site, request)
            said = visit if isinstance(visit, Refusal) else await handler(visit)
        return _problem(site, said) if isinstance(said, Refusal) else said

    return door


async def _visit(site: Site, request: Request) -> Visit | Refusal:
    if request.headers.get("authorization"):
        return no_token_here()
    secret = request.cookies.get(site.cookie, "")
    session = await sessions.visitor(site.deps, secret) if secret else None
    if session is None:
        return not_signed_in()
    visit = Visit(site, request, session, secret)
    if request.method in ("GET", "HEAD"):
        return visit
    shown = request.headers.get("x-csrf-token", "")
    if not site.hosts.sent(request) or not hmac.compare_digest(shown.encode(), visit.csrf.encode()):
        return refusals.foreign_form()
    try:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES:
                return refusals.form_too_large(BODY_BYTES // KIB)
        parsed = parse_json(bytes(body)) if request.method == "PUT" else None
    except (ClientDisconnect, ValueError, RecursionError):
        return refusals.bad_form()
    session = await sessions.visitor(site.deps, secret)  # the body may have taken its time
    return not_signed_in() if session is None else Visit(site, request, session, secret, json=parsed)


def _repo(visit: Visit) -> str:
    return f"{visit.request.path_params['owner']}/{visit.request.path_params['name']}"


def _sure(name: str) -> str:
    """A name as a record may have it: what is none may be a value in the wrong place."""
    return name if decide_name(name, "") is None else ""


def _told(one: Secret) -> dict[str, object]:
    return {"name": one.name, "set_at": rfc3339(one.set_at), "set_by": one.set_by}


def _json(visit: Visit, told: dict[str, object], status: int = 200) -> Response:
    return JSONResponse(told, status, headers=headers(visit.site))


def _problem(site: Site, refusal: Refusal) -> Response:
    status, problem = refusal_problem(refusal)
    status = STATUS.get(refusal.code, status)
    return JSONResponse(
        {**problem, "status": status}, status, headers=headers(site), media_type="application/problem+json"
    )
