"""The HTTP side of the composition: what answers at which path."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from onbe.deps import Deps


def web(deps: Deps) -> ASGIApp:
    """Every path that Onbe answers at."""
    routes: list[BaseRoute] = []
    return Starlette(routes=routes)
