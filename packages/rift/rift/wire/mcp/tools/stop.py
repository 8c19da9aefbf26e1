"""rift_stop: stops a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from rift.commands import actions
from rift.wire.mcp import schemas
from rift.wire.mcp.common import COMMAND_ANSWER, TASK
from rift.wire.mcp.render import command_answer
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Stop it, and give its end or say that the stop is requested."""
    answer = await actions.stop(call.deps, call.act, call.deadline, arguments["task"], arguments["id"], call.progress)
    return answer if isinstance(answer, Refusal) else command_answer(answer)


TOOL = Tool(
    name="rift_stop",
    title="Stop a command",
    description=(
        "Stops a command: one that has not started does not run, one that runs is killed with all its processes. "
        "Answers its end, or that the stop is requested; rift_output reads what it printed."
    ),
    input_schema=schemas.arguments(required={"task": TASK, "id": schemas.string("<vm>.<n>", minLength=1)}),
    output_schema=COMMAND_ANSWER,
    run=run,
    example={"task": YOUR_HANDLE, "id": "<vm>.<n>"},
    destructive=True,
    idempotent=True,
)
