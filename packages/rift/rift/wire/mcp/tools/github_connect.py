"""rift_github_connect: where the App is installed for an organization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Call as CallMend
from keel.refusal import Refusal
from rift.github import actions
from rift.github.model import Connected, Install
from rift.names import PERSONAL
from rift.wire.mcp import schemas
from rift.wire.mcp.common import ORG
from rift.wire.mcp.render import lines, next_line, quoted
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """The address, or what is connected already."""
    done = await actions.connect(call.deps, call.act, arguments["org"])
    if isinstance(done, Refusal):
        return done
    return Answer(install(done) if isinstance(done, Install) else connected(done))


def install(to: Install) -> str:
    """What the person opens, and what comes after."""
    whose = "your own GitHub user" if to.org == PERSONAL else f"a GitHub organization for {quoted(to.org)}"
    others = f"The App is in {' and '.join(to.others)} already: {to.page} connects one of them." if to.others else None
    return lines(
        f"Show your user this link and wait for them: {to.url}",
        f"It installs Rift's GitHub App for {whose}; it is for them, signed in to Rift in that browser, for an hour.",
        others,
        "When they say that it is done:",
        next_line(CallMend("rift_whoami")),
    )


def connected(done: Connected) -> str:
    """What is connected, and how it is turned on."""
    login = done.account.login
    said = f"GitHub's {login} is connected to {quoted(done.org)}{'' if done.new else ' already'}"
    match done.account.state:
        case "enabled":
            return lines(f"{said}, and Rift is on for it.", next_line(CallMend("rift_repos", {"org": done.org})))
        case "suspended":
            return f"{said}. The App is suspended there: an owner of {login} lets it go on in its settings at GitHub."
    return lines(f"{said}.", next_line(CallMend("rift_github_enable", {"org": done.org, "account": login})))


TOOL = Tool(
    name="rift_github_connect",
    title="Connect a GitHub account",
    description=(
        "For admins: answers the App's install URL: personal for your user's own GitHub user, after rift_github_login; "
        "a team for a GitHub organization. Show it and wait for your user. Next: rift_github_enable."
    ),
    input_schema=schemas.arguments(required={"org": ORG}),
    run=run,
    example={"org": PERSONAL},
)
