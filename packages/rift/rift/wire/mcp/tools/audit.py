"""rift_audit: where a person reads what their agents did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import Refusal
from rift.records import actions
from rift.wire.mcp import schemas
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """The address, and nothing else: whoever opens it sees what they may read."""
    link = await actions.link(call.deps, call.act, arguments.get("task"), arguments.get("vm"))
    return link if isinstance(link, Refusal) else Answer(link)


TOOL = Tool(
    name="rift_audit",
    title="Where the audit is",
    description=(
        "Answers the URL of the audit, for your user to open signed in: what agents did, call by call. With task that "
        "task's, with vm that VM's, with neither all that they may read."
    ),
    input_schema=schemas.arguments(
        optional={
            "task": schemas.string("A task's id, task_<id>.", minLength=1),
            "vm": schemas.string("A VM's id or name.", minLength=1),
        }
    ),
    run=run,
    example={"task": "task_t3fbd463"},
    read_only=True,
    when_missing={},
)
