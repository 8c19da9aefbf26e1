"""rift_github_login: a person's own GitHub account, one step per call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.logins import actions
from rift.logins.model import Step
from rift.wire.mcp import schemas
from rift.wire.mcp.render import lines, next_line
from rift.wire.mcp.tool import Answer, Call, Tool

AGAIN = CallMend("rift_github_login")


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """One step."""
    step = await actions.login(call.deps, call.act)
    return step if isinstance(step, Refusal) else Answer(render(step))


def render(step: Step) -> str:
    """What the person does, or who they are."""
    seconds = f"{step.seconds} second{'' if step.seconds == 1 else 's'}"
    match step.status:
        case "already":
            return lines(
                f"GitHub is connected already: as {step.login}. On the page /app/connections it is disconnected.",
                next_line(CallMend("rift_whoami")),
            )
        case "connected":
            return lines(f"GitHub is connected: as {step.login}.", next_line(CallMend("rift_whoami")))
        case "waiting":
            return lines(
                f"GitHub has no answer yet. Your user opens {step.url} and types the code {step.code} there.",
                f"Wait for them, and at least {seconds}.",
                next_line(AGAIN),
            )
    return lines(
        f"Ask your user to open {step.url} and to type this code there: {step.code}",
        f"Wait for them, and at least {seconds}; then the same call checks.",
        next_line(AGAIN),
    )


TOOL = Tool(
    name="rift_github_login",
    title="Log in to GitHub",
    description=(
        "Connects your user's own GitHub account, which pushes and pull requests are made as. One step per call: first "
        "a URL and a code for your user; then the check, which names the GitHub user."
    ),
    input_schema=schemas.arguments(),
    run=run,
    example={},
)
