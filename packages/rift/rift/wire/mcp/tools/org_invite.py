"""rift_org_invite: invites somebody to a team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.invites import actions
from rift.mail import actions as mail
from rift.times import rfc3339
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EMAIL, EXAMPLE_EMAIL, EXAMPLE_ORG, TEAM
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Invite them, or renew the invitation they have."""
    role = arguments.get("role", "member")
    done = await actions.invite(call.deps, call.act, arguments["org"], arguments["email"], role)
    if isinstance(done, Refusal):
        return done
    one, what = done.invitation, "renewed the invitation of" if done.renewed else "invited"
    accept = CallMend("rift_org_accept", {"org": one.team})
    return Answer(
        lines(
            f"{what} {one.email} to {quoted(one.team or '')} as {one.role}, until {rfc3339(one.expires_at)}.",
            f"{mail.goes(call.deps)} The link makes an account if they have none.",
            f"Their agent accepts with: {accept.text}",
            next_line(CallMend("rift_whoami")),
        )
    )


TOOL = Tool(
    name="rift_org_invite",
    title="Invite to a team",
    description=(
        "For a team's admins: invites someone, who gets an email that lets them make an account if they have none. "
        "Inviting again renews the invitation with the role given then."
    ),
    input_schema=schemas.arguments(
        required={"org": TEAM, "email": EMAIL},
        optional={"role": schemas.string("member by default.", enum=["member", "admin"])},
    ),
    run=run,
    example={"org": EXAMPLE_ORG, "email": EXAMPLE_EMAIL},
    idempotent=True,
)
