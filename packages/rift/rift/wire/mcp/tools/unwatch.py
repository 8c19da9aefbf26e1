"""rift_unwatch: stops watching a branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Refusal
from rift.repos import actions
from rift.repos.model import Unwatched
from rift.wire.mcp import schemas
from rift.wire.mcp.common import EXAMPLE_REF, EXAMPLE_REPO, REF, REPO
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Stop, and say what drains."""
    done = await actions.unwatch(call.deps, call.act, arguments["repo"], arguments["ref"])
    return done if isinstance(done, Refusal) else Answer(render(done))


def render(done: Unwatched) -> str:
    """What goes and what stays."""
    draining = f"{done.draining or 'no'} warm VM{'' if done.draining == 1 else 's'}"
    return (
        f"{done.ref} of {done.repo.full} is not watched any more: {draining} will be drained, no new VM can be claimed "
        "on it, and VMs that tasks hold run on until their task closes."
    )


TOOL = Tool(
    name="rift_unwatch",
    title="Stop watching a branch",
    description=(
        "Stops watching a branch: its warm VMs drain and no new VM can be claimed on it; for admins of its "
        "organization. A VM that a task holds runs on until its task closes."
    ),
    input_schema=schemas.arguments(required={"repo": REPO, "ref": REF}),
    run=run,
    example={"repo": EXAMPLE_REPO, "ref": EXAMPLE_REF},
    destructive=True,
)
