"""rift_bash: runs a shell command in a box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keel.refusal import YOUR_HANDLE, Refusal
from rift.commands import actions
from rift.commands.actions import Wanted
from rift.wire.mcp import schemas
from rift.wire.mcp.common import BLOCK_FOR, COMMAND_ANSWER, EXAMPLE_VM, TASK, TIMEOUT, VM, WHOLE
from rift.wire.mcp.render import command_answer
from rift.wire.mcp.tool import Answer, Call, Tool


async def run(call: Call, arguments: Mapping[str, Any]) -> Answer | Refusal:
    """Queue it and wait for it."""
    wanted = Wanted("bash", arguments["command"], arguments["timeout"])
    answer = await actions.run(
        call.deps,
        call.act,
        call.deadline,
        arguments["task"],
        arguments["vm"],
        wanted,
        arguments["block_for"],
        call.progress,
    )
    return answer if isinstance(answer, Refusal) else command_answer(answer)


TOOL = Tool(
    name="rift_bash",
    title="Run a command",
    description=(
        "Runs a shell command in the VM, starting in the checkout, and answers finished with its exit code and "
        "output, or has not finished with the rift_output call that reads on: then do not send it again. It runs "
        "until it ends or `timeout` passes, whether or not the call still waits. Files and background processes "
        "persist between commands; variables and the working directory do not; after a 403 of the VM's proxy, "
        "`curl 127.0.0.1:3128` in it says whom to ask. At most 4 commands are open at once; a quiet task closes after "
        "4 hours even while one runs, so read a long one with rift_output; what "
        "needs GitHub is a verb, and `verbs` in the VM lists them (see Inside a box)."
    ),
    input_schema=schemas.arguments(
        required={
            "task": TASK,
            "vm": VM,
            "command": schemas.string("Shell text, up to 128 KiB."),
            "timeout": TIMEOUT,
            "block_for": BLOCK_FOR,
        }
    ),
    output_schema=COMMAND_ANSWER,
    meta=WHOLE,
    run=run,
    example={"task": YOUR_HANDLE, "vm": EXAMPLE_VM, "command": "<command>", "timeout": 600, "block_for": 30},
    destructive=True,
)
