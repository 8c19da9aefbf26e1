"""The admin API, below `/admin`: one application, behind one guard, with one OpenAPI document.

A subject is a module with `router(deps)`, listed in `api`; its schemas go into `schemas`.
"""

from __future__ import annotations

import re
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route

from keel.db import Busy, OperationalError
from keel.refusal import Stop
from onbe import __doc__ as about
from onbe.deps import Deps
from onbe.directory.decide import shown
from onbe.wire import refusals
from onbe.wire.admin import agents, answers, sponsors, tasks
from onbe.wire.admin.guard import Guard
from onbe.wire.admin.schemas import SCHEMAS

VERSION = "1"
"""The version of this API, not of the program."""


class AdminApi(FastAPI):
    """FastAPI with our schemas in its document."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if not self.openapi_schema:
            made = super().openapi()
            components = made.setdefault("components", {})
            components["schemas"] = dict(sorted({**SCHEMAS, **tasks.SCHEMAS, **sponsors.SCHEMAS}.items()))
            components["securitySchemes"] = {
                "key": {"type": "http", "scheme": "bearer", "description": "A key of Onbe:Admin:Keys."}
            }
            made["security"] = [{"key": []}]
        return super().openapi()


def api(deps: Deps) -> FastAPI:
    """The application, without its guard."""
    app = AdminApi(
        title="Onbe admin API",
        version=VERSION,
        description=about or "",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        root_path_in_servers=False,
        servers=[{"url": "/admin"}],
        responses=answers.told(*answers.ALWAYS),
        exception_handlers={
            HTTPException: _http,
            RequestValidationError: _parameters,
            Busy: _away,
            OperationalError: _away,
            Exception: _fault,
        },
    )
    for subject in (agents, tasks, sponsors):
        app.include_router(subject.router(deps), dependencies=[Depends(_only_known)])
    return app


def routes(deps: Deps) -> list[BaseRoute]:
    """Everything below `/admin`, behind the guard."""
    door = Guard(sponsors.KeysInPaths(api(deps)), deps)
    below = Mount("/admin", app=door)
    below.path_regex = re.compile(below.path_regex.pattern, re.DOTALL)  # a line break in a path leads past no door
    return [below, Route("/admin", door)]


async def _only_known(request: Request) -> None:
    """Refuse parameters that the operation does not have: `dry-run`, ignored, would not be a dry run."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)  # this stands before operations alone
    known = {parameter.alias for parameter in route.dependant.query_params}
    names = [name for name, _ in request.query_params.multi_items()]
    wrong = {name: "is not one that is taken here" for name in names if name not in known}
    wrong |= {name: "is there twice" for name in known if names.count(name) > 1}
    if wrong:
        raise RequestValidationError([{"loc": ("query", shown(name)), "msg": why} for name, why in wrong.items()])


async def _http(request: Request, error: Exception) -> Response:
    """What the framework itself answers: no such path, no such method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return answers.refused(refusals.path_unknown(Stop()))
    if error.status_code == 405:
        said = answers.refused(refusals.method_unknown(Stop()))
        said.headers["Allow"] = ", ".join(sorted(_methods(request)))
        return said
    return answers.refused(answers.malformed("The request cannot be read"))


def _methods(request: Request) -> set[str]:
    """What the path takes, whichever operation: the framework names those of the first alone (RFC 9110, 10.2.1)."""
    methods: set[str] = set()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        scope = {**request.scope, "method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            methods.add(method)
    return methods


async def _parameters(request: Request, error: Exception) -> Response:
    """Wrong parameters, each named with what it should be; none is repeated."""
    assert isinstance(error, RequestValidationError)
    told = "; ".join(f"the parameter {one['loc'][-1]}: {one['msg']}" for one in error.errors())
    return answers.refused(answers.malformed(told[:1].upper() + told[1:]))


async def _away(request: Request, error: Exception) -> Response:
    return answers.database_away()


async def _fault(request: Request, error: Exception) -> Response:
    return answers.failed()
