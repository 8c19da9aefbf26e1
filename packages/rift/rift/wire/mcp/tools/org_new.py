"""rift_org_new: makes a team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.people import actions
from rift.secrecy import without_secrets
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_ORG
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Make it, with the caller as its admin."""
    place = await actions.new_team(call.deps, call.act, without_secrets(arguments["name"]))  # it stands in lists
    if isinstance(place, Refusal):
        return place
    return Answer(
        lines(
            f"made the team {quoted(place.name)}; you are its admin.",
            next_line(CallMend("rift_org_invite", {"org": place.name, "email": "<their address>"})),
        )
    )


TOOL = Tool(
    name="rift_org_new",
    title="Make a team",
    description=(
        "Makes a team with you as its admin; its members share repositories and VMs. Its name is what `org` "
        "arguments take. Next: rift_org_invite."
    ),
    input_schema=schemas.arguments(
        required={"name": schemas.string("At most 64 characters.", minLength=1, maxLength=200)}
    ),
    run=run,
    example={"name": EXAMPLE_ORG},
)
