"""A path of Onbe is one spelling: any other leads nowhere, past no limit and to no other host."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from tests.behaviour.onbe.world import ISSUER, World

from keel.web.observed import Observed
from onbe.serving import web
from onbe.wire.limits import FORMS, FREE, Limits, kind_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def paths(world: World) -> list[str]:
    """Every path that is served, but those below /admin, whose door is before them."""
    observed = web(world.deps)
    assert isinstance(observed, Observed)
    limits = observed._app
    assert isinstance(limits, Limits)
    inside = limits._app
    assert isinstance(inside, Starlette)
    return [route.path.replace("{seq}", "1") for route in inside.routes if isinstance(route, Route)]


@pytest.mark.parametrize("tail", ["%0a", "%0A%0A", "%0d", "%00", "%20", "/", "//", "/%0a", "%e2%80%a8", "%2f", ";x"])
async def test_a_path_with_something_behind_it_is_none(world: World, tail: str) -> None:
    served = paths(world)
    assert {*FORMS, *FREE, "/audit", "/.well-known/jwks.json"} <= set(served)
    for path in served:
        for method in ("GET", "POST"):
            answer = await world.http.request(method, f"{ISSUER}{path}{tail}", headers=FORM, content=b"token=x")
            below = path == "/admin" and tail.startswith(("/", "%2f"))
            expected = (401, 503) if below else (404,)
            assert answer.status_code in expected, (method, path, answer.text)
            assert "location" not in answer.headers


@pytest.mark.parametrize("host", ["attacker.example", "onbe.example", "localhost:1"])
async def test_nobody_is_sent_to_the_host_that_a_request_names(world: World, host: str) -> None:
    for path in paths(world):
        answer = await world.http.post(f"{path}/", headers={**FORM, "Host": host}, content=b"token=x")
        assert not answer.is_redirect
        assert host not in answer.text


async def test_what_answers_as_a_form_is_limited_as_one(world: World) -> None:
    for path in FORMS:
        for spelled in (path, f"{path}%0a", path.upper(), f"/{path}"):
            answer = await world.http.post(f"{ISSUER}{spelled}", headers=FORM, content=b"token=x")
            assert (answer.status_code != 404) == (kind_of(spelled) == FORMS[path]), spelled
