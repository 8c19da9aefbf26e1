"""The Connections page: the MCP clients that act for a person, how to connect one and end it; their GitHub account."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.connections import actions
from rift.logins import actions as logins
from rift.people.model import Token
from rift.registration import actions as registration
from rift.wire.web.visit import Page, Visit

PATH = "/app/connections"


async def connections(visit: Visit) -> Response | Refusal:
    """Every token of the person's that is good."""
    return await _page(visit)


async def make(visit: Visit) -> Response | Refusal:
    """Make a token by hand, and show its secret this once."""
    made = await actions.make(
        visit.deps, visit.act("make token", client=visit.said("client")[:200]), visit.said("client")
    )
    if isinstance(made, Refusal):
        return await _page(visit, 422, error=made.sentence, typed=visit.said("client"))
    return await _page(visit, made=made)


async def confirm(visit: Visit) -> Response | Refusal:
    """Which one would end."""
    found = await actions.connection(visit.deps, visit.caller.user, visit.request.path_params["token"])
    return found if isinstance(found, Refusal) else visit.render("connection.html", connection=found)


async def disconnect(visit: Visit) -> Response | Refusal:
    """End it."""
    id = visit.request.path_params["token"]
    ended = await actions.disconnect(visit.deps, visit.act("revoke token", token=id), id)
    if isinstance(ended, Refusal):
        return ended
    return visit.go(PATH, f"{ended.client} is disconnected: its next call is refused.")


async def _page(
    visit: Visit, status: int = 200, *, made: tuple[Token, str] | None = None, error: str = "", typed: str = ""
) -> Response:
    found = await actions.connections(visit.deps, visit.caller.user)
    async with visit.deps.db.look(visit.caller.user) as tx:
        github = await logins.of_user(tx, visit.caller.user)
        app = await registration.there_is_one(tx, visit.deps)
    return visit.render(
        "connections.html", status, connections=found, made=made, error=error, typed=typed,
        url=actions.resource(visit.deps), github=github, app=app,
    )  # fmt: skip


PAGES = (
    Page(PATH, connections, make),
    Page(f"{PATH}/{{token}}/revoke", confirm, disconnect),
)
