"""rift_output: waits for commands and reads their output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from rift.commands import actions
from rift.wire.mcp import schemas
from rift.wire.mcp.common import BLOCK_FOR, COMMAND, NEXT, TASK, WHOLE
from rift.wire.mcp.render import commands_answer
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Wait for the first of them to end, then read each."""
    wanted = [(one["id"], one["offset"]) for one in arguments["commands"]]
    answers = await actions.output(
        call.deps, call.act, call.deadline, arguments["task"], wanted, arguments["block_for"], call.progress
    )
    return answers if isinstance(answers, Refusal) else commands_answer(answers)


TOOL = Tool(
    name="rift_output",
    title="Read output",
    description=(
        "Waits up to `block_for` seconds until the first of 1 to 4 commands of one VM ends, then gives each one's "
        "status and output from its offset, 64 KiB in all at most. The answer ends with the exact next call: repeat "
        "it until every command ended and its output is read."
    ),
    input_schema=schemas.arguments(
        required={
            "task": TASK,
            "commands": schemas.array(
                schemas.arguments(
                    required={
                        "id": schemas.string("<vm>.<n>"),
                        "offset": schemas.integer("0, or the last answer's next_offset.", low=0),
                    }
                ),
                low=1,
                high=4,
            ),
            "block_for": BLOCK_FOR,
        }
    ),
    output_schema={
        "type": "object",
        "description": "For one command its fields; for several, commands and ended.",
        "properties": {
            **COMMAND,
            "commands": schemas.array(schemas.answer(**COMMAND)),
            "ended": schemas.array(schemas.string()),
            "next": NEXT,
        },
        "required": ["next"],
    },
    meta=WHOLE,
    run=run,
    example={"task": YOUR_HANDLE, "commands": [{"id": "<vm>.<n>", "offset": 0}], "block_for": 30},
    read_only=True,
)
