"""rift_org_accept: accepts an invitation to a team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.invites import actions
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_ORG
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Accept it."""
    place = await actions.accept(call.deps, call.act, arguments["org"])
    if isinstance(place, Refusal):
        return place
    return Answer(
        lines(
            f"you are in the team {quoted(place.name)} now, as {place.role}.",
            next_line(CallMend("rift_repos", {"org": place.name})),
        )
    )


TOOL = Tool(
    name="rift_org_accept",
    title="Accept an invitation",
    description="Accepts a pending invitation of yours; rift_whoami lists them. Next: rift_repos.",
    input_schema=schemas.arguments(
        required={"org": schemas.string("The team's name, or the invitation's id.", minLength=1, maxLength=100)}
    ),
    run=run,
    example={"org": EXAMPLE_ORG},
)
