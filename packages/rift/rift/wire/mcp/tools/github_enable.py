"""rift_github_enable: turns Rift on for a GitHub account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.github import actions
from rift.names import PERSONAL
from rift.wire.mcp import schemas
from rift.wire.mcp.common import ORG
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Turn it on."""
    done = await actions.enable(call.deps, call.act, arguments["org"], arguments["account"])
    if isinstance(done, Refusal):
        return done
    return Answer(
        lines(
            f"Rift is on for GitHub's {done.account.login} in {quoted(done.org)}{'' if done.new else ', as it was'}; "
            "its repositories are being listed.",
            next_line(CallMend("rift_repos", {"org": done.org})),
        )
    )


TOOL = Tool(
    name="rift_github_enable",
    title="Enable a GitHub account",
    description=(
        "For admins: turns Rift on for an account where the App is installed, so that its repositories can be watched. "
        "Next: rift_repos."
    ),
    input_schema=schemas.arguments(
        required={"org": ORG, "account": schemas.string("Its name at GitHub.", minLength=1, maxLength=100)}
    ),
    run=run,
    example={"org": PERSONAL, "account": "<name at GitHub>"},
    idempotent=True,
)
