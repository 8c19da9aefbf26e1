"""Agents that revoke and ask after what they hold, in a world."""

from __future__ import annotations

from typing import Any

import httpx2
from tests.behaviour.onbe.world import ADMIN_KEY, ISSUER, PROVIDER, World

from onbe import names
from onbe.settings import AdminSettings, OnbeSettings, ServerSettings, SubjectSettings

ASKING = ISSUER + names.INTROSPECT_PATH
"""Whom an assertion is addressed to that is good for asking alone."""
BARE = {"active": False}


def settings_with_admin() -> OnbeSettings:
    """Those of a world, with a key of the admin API."""
    return OnbeSettings(
        server=ServerSettings(public_url=ISSUER),
        subjects=SubjectSettings(issuer=PROVIDER, audiences=("onbe",)),
        admin=AdminSettings(keys=(ADMIN_KEY,)),
    )


async def revoke(world: World, agent: str, token: str, **form: Any) -> httpx2.Response:
    """POST a revocation; any parameter can be replaced, or left out with None."""
    return await world.post(await _shown(world, agent, token, form), names.REVOKE_PATH)


async def introspect(world: World, agent: str, token: str, **form: Any) -> httpx2.Response:
    """POST a question after a token."""
    return await world.post(await _shown(world, agent, token, form), names.INTROSPECT_PATH)


async def standing(world: World, token: str, agent: str = "tool") -> dict[str, Any]:
    """What is answered to a tool server that asks after a token."""
    answer = await introspect(world, agent, token)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def administrator(world: World, method: str, path: str, **more: Any) -> httpx2.Response:
    """A request of the admin API's, or a question, with the key."""
    return await world.http.request(method, path, headers={"Authorization": f"Bearer {ADMIN_KEY}"}, **more)


async def _shown(world: World, agent: str, token: str, form: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"token": token, "client_assertion_type": names.ASSERTION_TYPE}
    if "client_assertion" not in form:
        made["client_assertion"] = world.assertion(agent)
    return {**made, **form}
