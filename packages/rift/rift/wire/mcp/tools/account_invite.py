"""rift_account_invite: lets somebody make an account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.invites import actions
from rift.mail import actions as mail
from rift.times import rfc3339
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EMAIL, EXAMPLE_EMAIL
from rift.wire.mcp.render import lines, next_line
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Invite them, or renew the invitation they have."""
    done = await actions.invite_account(call.deps, call.act, arguments["email"])
    if isinstance(done, Refusal):
        return done
    one = done.invitation
    what = "renewed the invitation of" if done.renewed else "invited"
    return Answer(
        lines(
            f"{what} {one.email} to make an account, until {rfc3339(one.expires_at)}.",
            f"{mail.goes(call.deps)} The link makes the account and signs them in. They are off the waitlist.",
            next_line(CallMend("rift_waitlist")),
        )
    )


TOOL = Tool(
    name="rift_account_invite",
    title="Invite to make an account",
    description=(
        "For the platform admin: lets someone make an account by the link in an email, also a person on the waitlist."
    ),
    input_schema=schemas.arguments(required={"email": EMAIL}),
    run=run,
    example={"email": EXAMPLE_EMAIL},
    idempotent=True,
)
